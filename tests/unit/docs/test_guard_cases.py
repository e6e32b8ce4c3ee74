"""tests/guard-cases.md names tests that exist, for all that guard was asked for."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]

FAULTS = (
    "rollout-operator#339",
    "its missing-pods check",
    "needs label `name`",
    "#81, zone tracker",
    "#303",
    "#306",
    "ZPDB",
    "podseidon, compaction",
    "podseidon, dry run",
    "podseidon, protector gone from cache",
    "podseidon 409 on eviction",
    "podseidon, `Recreate`",
    "podseidon, column `Estimated`",
    "ingress, code",
    "ingress, example",
)
ANSWERS = (
    "downscale of a no-downscale object, also dry run, also `/scale`",
    "replicas from or to null; undecodable; parent unreadable (no-downscale)",
    (
        "prepare: port, path or serviceName missing; "
        "another set downscaled too recently, not updated or not ready; group locked"
    ),
    "prepare: one POST not 2xx",
    "delayed: last ordinals over the delay",
    "eviction beyond ZPDB",
    "ZPDB 0; pod Pending, finished or terminating",
    "two ZPDBs on a pod; fewer than two sets; partition not found",
    "protector: at the minimum",
    "protector: reserved but not seen, or maxConcurrentLag reached",
    "pod not ready, younger than minReadySeconds, force-delete, terminating, unmatched",
    "caches not synced, core away",
    "`rollout-max-unavailable` 0, −1, `101%`, `abc`",
    "ZPDB that contradicts itself",
    "IngressDaemonSet that contradicts itself",
    "timestamp that can't be read",
    "leader missing or in a circle",
    "not an AdmissionReview v1, unknown cell",
)
UPSTREAM = (
    "TestRolloutHappyCase",
    "TestRolloutHappyCaseWithZpdb",
    "TestWebHookInformer",
    "TestNoDownscale_CanDownscaleUnrelatedResource",
    "TestNoDownscale_DownscalingNotAllowed",
    "TestNoDownscale_UpscalingAllowed",
    "TestZoneAwarePodDisruptionBudgetMaxUnavailableEq1",
    "TestZoneAwarePodDisruptionBudgetMaxUnavailableEq2",
    "TestZoneAwarePodDisruptionBudgetPartitionMode",
    "TestZoneAwarePodDisruptionBudgetPartitionModeWithCrossZoneEvictionDelay",
    "controller_test: 60 cases",
    'Generator "maintains the lifecycle of a child PodProtector"',
    'Aggregator "aggregates pods of the cell"',
    'Webhook "allows normal … and rejects extra"',
    'Webhook "rejects bulk deletions"',
    'Webhook "… MaxConcurrentLag"',
    'Webhook "… unready"',
    'Webhook "… unavailable"',
    'Webhook "… when peer is running"',
    "(none: from the document) health port, nodes at a time, grace, attached, killed during it",
)

CASES = 60
"""Of rollout-operator's controller_test."""


def rows(title: str) -> list[list[str]]:
    """The cells of the table under a title of the page."""
    page = (REPOSITORY / "tests/guard-cases.md").read_text()
    part = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def every_row() -> list[list[str]]:
    """Of all tables."""
    titles = ("Faults of the originals", "Answers", "Upstream's tests", "controller_test")
    return [row for title in titles for row in rows(title)]


@cache
def defined_in(path: Path) -> frozenset[str]:
    """The names of a file's tests."""
    if not path.is_file():
        return frozenset()
    body = ast.parse(path.read_text()).body
    return frozenset(each.name for each in body if isinstance(each, ast.FunctionDef))


@pytest.mark.parametrize(
    ("title", "wanted"),
    [("Faults of the originals", FAULTS), ("Answers", ANSWERS), ("Upstream's tests", UPSTREAM)],
)
def test_no_row_is_missing(title: str, wanted: tuple[str, ...]) -> None:
    """Each table has what was asked for, and nothing else."""
    assert tuple(row[0] for row in rows(title)) == wanted


def test_no_case_of_controller_test_is_missing() -> None:
    """They are counted."""
    assert [row[0].partition(". ")[0] for row in rows("controller_test")] == [str(n) for n in range(1, CASES + 1)]


def test_each_row_names_a_test_or_is_not_built() -> None:
    """By its last cell; the cases of controller_test have a table of their own."""
    shown = [row[-1] for row in every_row()]
    without = [each for each in shown if "::test_" not in each and each != "not built yet"]
    assert without == ["[below](#controller_test)"]


def test_each_test_that_is_named_exists() -> None:
    """Under that name, in that file."""
    named = [each for row in every_row() for each in re.findall(r"`(tests/[^`]*)`", row[-1])]
    split = [each.partition("::") for each in named]
    assert [path + name for path, _, name in split if name not in defined_in(REPOSITORY / path)] == []
    assert len(named) > 100
