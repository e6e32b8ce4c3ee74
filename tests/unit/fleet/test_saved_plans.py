"""A fleet's plan in a file: what a campaign is begun with, and no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fleet_folder import write_fleet
from tests.unit.ui.test_plan_markdown import document
from upgrader.errors import UsageError
from upgrader.fleet.campaigns import fleet_files
from upgrader.fleet.events import Pins
from upgrader.fleet.fleet_folder import read_fleet
from upgrader.fleet.inputs import Inputs
from upgrader.fleet.plans import PlannedCluster, plan_fleet
from upgrader.fleet.saved_plans import SavedFleetPlan, read_fleet_plan, save_fleet_plan
from upgrader.model.redaction.known_secrets import KNOWN

PINS = Pins("1", "c", "p")


@pytest.fixture
def saved(tmp_path: Path) -> SavedFleetPlan:
    """The plan of three clusters, one of which has told a secret."""
    fleet = read_fleet(write_fleet(tmp_path), FakeClock().now())

    def plan(folder: Path, _: object) -> PlannedCluster:
        if folder.name == "a":
            KNOWN.learn(["top-secret"])
        return PlannedCluster(document("top-secret" if folder.name == "a" else "web"), changes=folder.name)

    planned = plan_fleet(fleet, plan, lambda _: None, lambda each: Inputs(each.name, "k", "p"))
    path = tmp_path / "fleet.plan"
    return save_fleet_plan(path, fleet, planned, PINS, fleet_files(tmp_path), FakeClock().now())


def test_saved_plan_is_read_as_it_was_written(saved: SavedFleetPlan) -> None:
    """With each cluster's inputs and changes, and the classes for who approves them; no one else reads it."""
    assert read_fleet_plan(saved.path) == saved
    assert saved.changes == {"a": "a", "b": "b", "c": "c"} and saved.binding.clusters[0].digest == "a.k.p"
    content = json.loads(saved.path.read_text())
    assert [each["clusters"] for each in content["classes"]] == [["b", "c"], ["a"]]
    assert saved.path.stat().st_mode & 0o777 == 0o600 and "top-secret" not in saved.path.read_text()


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda content: content["binding"]["clusters"].pop(), "changed after it was saved"),
        (lambda content: content.update(expires="2999-01-01T00:00:00+00:00"), "changed after it was saved"),
        (lambda content: content.update(format_version="2.0"), "its format_version is 2.0, not 1.0"),
        (lambda content: content.clear(), "it has no `binding`"),
    ],
)
def test_file_that_is_no_saved_plan(saved: SavedFleetPlan, edit: Callable[[Any], object], why: str) -> None:
    """One that was edited, or of another format, begins no campaign."""
    content = json.loads(saved.path.read_text())
    edit(content)
    saved.path.write_text(json.dumps(content))
    with pytest.raises(UsageError, match=why):
        read_fleet_plan(saved.path)


@pytest.mark.parametrize("text", ["", "[]", "{", "\0", "[" * 100_000])
def test_any_other_file(tmp_path: Path, text: str) -> None:
    """What isn't JSON, or isn't an object, is named."""
    path = tmp_path / "other"
    path.write_text(text)
    with pytest.raises(UsageError, match="is not a saved plan of a fleet"):
        read_fleet_plan(path)
