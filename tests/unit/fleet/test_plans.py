"""Classes of equal plans: what people approve instead of reading a plan for each cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fleet_folder import FLEET, write_fleet
from tests.unit.ui.test_plan_markdown import document
from upgrader.errors import ApiUnavailable
from upgrader.fleet.model import Fleet
from upgrader.fleet.plans import plan_classes
from upgrader.fleet.reading import read_fleet
from upgrader.model.version import KubernetesVersion
from upgrader.steps.plan_document import PlanDocument

INVENTORY = """\
clusters:
- {name: eu-1, uid: u1, labels: {ring: canary}}
- {name: eu-10, uid: u2, labels: {ring: production}}
- {name: us, uid: u3, labels: {ring: production}}
- {name: d, uid: u4}
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """A canary and two clusters of production."""
    for name in ("eu-1", "eu-10", "us"):
        cluster = tmp_path / "clusters" / name
        cluster.mkdir(parents=True)
        (cluster / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    written = write_fleet(tmp_path, FLEET.replace("  domains: {label: region}\n", ""), INVENTORY)
    return read_fleet(written, FakeClock().now())


def test_equal_plans_are_one_class_and_so_are_equal_problems(fleet: Fleet) -> None:
    """The largest class comes first; a cluster that can't be planned is blocked, with its reason."""
    told: list[str] = []

    def plan(folder: Path, target: KubernetesVersion) -> PlanDocument:
        if folder.name == "us":
            raise ApiUnavailable("cannot connect to 10.0.0.3")
        return document()

    first, second = plan_classes(fleet, plan, told.append)
    assert (first.clusters, first.stages, first.problem) == (("eu-1", "eu-10"), ("canary", "production"), "")
    assert first.plan == document() and first.blocked == document().blocked
    assert (second.clusters, second.stages, second.plan) == (("us",), ("production",), None)
    assert second.blocked and second.problem == "cannot connect to 10.0.0.3"
    assert told == ["planning eu-1 (1 of 3)…", "planning eu-10 (2 of 3)…", "planning us (3 of 3)…"]


def test_plans_that_change_something_else_are_two_classes(fleet: Fleet) -> None:
    """A cluster whose plan has another step is told apart from the others."""
    classes = plan_classes(fleet, lambda folder, _: document("db" if folder.name == "eu-1" else "web"), lambda _: None)
    assert [each.clusters for each in classes] == [("eu-10", "us"), ("eu-1",)]


def test_clusters_that_fail_in_the_same_way_are_one_class(fleet: Fleet) -> None:
    """Their names and addresses are what tells their messages apart, and no reason."""

    def plan(folder: Path, target: KubernetesVersion) -> PlanDocument:
        raise ApiUnavailable(f"{folder.name}: cannot connect to 10.0.0.{len(folder.name)}")

    (only,) = plan_classes(fleet, plan, lambda _: None)
    assert only.clusters == ("eu-1", "eu-10", "us")
