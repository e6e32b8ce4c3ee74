"""`upgrader fleet`, with a stub for each cluster's run and answer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from testkit.fakes.clock import FakeClock
from testkit.fleet_folder import FLEET, write_fleet
from tests.unit.ui.test_plan_markdown import document
from upgrader.app import upgrade
from upgrader.cli.main import cli
from upgrader.errors import ApiUnavailable, Blocked, CampaignStopped, Locked, UsageError
from upgrader.fleet import use_cases
from upgrader.fleet.clusters import Answer
from upgrader.fleet.coordinator import Coordinator
from upgrader.fleet.inputs import own_pins
from upgrader.fleet.local_executor import LocalExecutor
from upgrader.fleet.outcomes import CommandEnd
from upgrader.model.version import KubernetesVersion

TARGET = KubernetesVersion.release("v1.37.1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fleet whose clusters answer, and whose first run is blocked by a check."""
    clock = FakeClock()
    uids = dict(zip("abcd", ("u1", "u2", "u3", "u4"), strict=True))
    monkeypatch.setattr(use_cases, "system_clock", lambda: clock)
    monkeypatch.setattr(use_cases, "ask_cluster", lambda cluster: Answer(uids[cluster.name], TARGET))
    monkeypatch.setattr(LocalExecutor, "start", lambda *_: None)
    monkeypatch.setattr(LocalExecutor, "running", lambda *_: False)
    monkeypatch.setattr(LocalExecutor, "end", lambda *_: CommandEnd(3, "", "Blocked", "etcd has an alarm"))
    monkeypatch.delenv("UPGRADER_KUBECONFIG", raising=False)
    return write_fleet(tmp_path)


def fleet(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["-C", str(folder), "fleet", *arguments], catch_exceptions=False)


def test_campaign_at_the_command_line(folder: Path) -> None:
    """A campaign begins, ends with a blocked cluster's code, says so, and takes what a person asks for."""
    assert "no campaign yet" in fleet(folder, "status").stdout
    with pytest.raises(UsageError, match="has no campaign in progress"):
        fleet(folder, "pause")
    with pytest.raises(CampaignStopped, match=r"maxFailures\.blocked") as caught:
        fleet(folder, "run", "--yes")
    assert caught.value.exit_code == 3
    shown = fleet(folder, "status").stdout
    assert "✗ blocked" in shown and "etcd has an alarm" in shown and "waits for the stages before it" not in shown
    found = json.loads(fleet(folder, "status", "-o", "json").stdout)
    assert [each["phase"] for each in found["clusters"]] == ["blocked", "waiting", "waiting"]
    assert "Paused" in fleet(folder, "pause", "--reason", "audit").stderr
    assert "paused by" in fleet(folder, "status").stdout
    assert "Resumed" in fleet(folder, "resume").stderr
    assert "is skipped" in fleet(folder, "skip", "b", "--reason", "later").stderr
    assert "is retried" in fleet(folder, "retry", "a").stderr
    assert "Approved" in fleet(folder, "approve", "production", "--reason", "fine").stderr
    assert "Approved" in fleet(folder, "approve", "--changes", "c", "--reason", "fine").stderr
    found = json.loads(fleet(folder, "status", "-o", "json").stdout)
    assert [each["phase"] for each in found["clusters"]] == ["waiting", "skipped", "waiting"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["approve", "canary", "--reason", "x"], "no stage canary needs an approval"),
        (["retry", "b"], "cluster b is waiting: there is nothing to retry"),
        (["retry", "z"], "the campaign has no cluster z"),
        (["resume"], "isn't paused"),
    ],
)
def test_requests_that_make_no_sense(folder: Path, arguments: list[str], message: str) -> None:
    """What can't be done is said at once, and not left to a coordinator."""
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    with pytest.raises(UsageError, match=message):
        fleet(folder, *arguments)


def test_one_kubeconfig_for_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubeconfig that would lead every run to one cluster is refused."""
    monkeypatch.setenv("UPGRADER_KUBECONFIG", "x")
    with pytest.raises(UsageError, match="every cluster of the fleet would be that one"):
        fleet(folder, "status")


def test_plan_shows_classes_and_names_what_is_blocked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that can't be planned ends the command with the code of a check, after all were planned."""

    def plan(cluster: Path, target: KubernetesVersion) -> SimpleNamespace:
        if cluster.name == "c":
            raise ApiUnavailable("cannot connect to 10.0.0.3")
        return SimpleNamespace(document=document())

    monkeypatch.setattr(upgrade, "plan_upgrade", plan)
    with pytest.raises(Blocked, match=r"1 of 3 clusters can't be upgraded: c"):
        fleet(folder, "plan")
    monkeypatch.setattr(upgrade, "plan_upgrade", lambda *_: SimpleNamespace(document=document()))
    shown = fleet(folder, "plan")
    assert shown.exit_code == 0 and "to v1.37.1: 3 clusters in 2 stages" in shown.stdout


def test_campaign_goes_on_only_with_what_it_was_begun_with(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed fleet files and another upgrader are named; a new campaign may begin with them."""
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    pins = own_pins()
    monkeypatch.setattr(use_cases, "own_pins", lambda: replace(pins, upgrader="9.9.9"))
    with pytest.raises(Blocked, match=r"was begun with upgrader .*; this is upgrader 9\.9\.9"):
        fleet(folder, "run", "--yes")
    inventory = folder / "fleet-inventory.yaml"
    inventory.write_text(inventory.read_text().replace("u4", "u5"))
    with pytest.raises(Blocked, match=r"fleet-inventory\.yaml:5: has changed since the campaign began"):
        fleet(folder, "run", "--yes")
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--new", "--yes")
    assert len(list((folder / "runs").glob("*-fleet-*"))) == 2


class Cut(BaseException):
    """The coordinator's power is cut."""


def test_new_campaign_waits_for_the_runs_of_the_one_before(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster isn't upgraded by two campaigns at a time."""

    def look_and_die(coordinator: Coordinator, _: object) -> None:
        coordinator.look()
        coordinator.look()
        raise Cut

    write_fleet(folder, FLEET.partition("  windows:")[0])
    monkeypatch.setattr(LocalExecutor, "running", lambda *_: True)
    monkeypatch.setattr(Coordinator, "run", look_and_die)
    with pytest.raises(Cut):
        fleet(folder, "run", "--yes")
    with pytest.raises(Locked, match="cluster a is being upgraded by campaign"):
        fleet(folder, "run", "--new", "--yes")
