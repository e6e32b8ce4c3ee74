"""A campaign whose runs end the emulation of the old minor, with the stages, soaks and limits of any other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from testkit.fleet_campaigns import campaign_of
from testkit.fleet_machine import FLEET, TARGET, Machine, begun, coordinator, phases
from upgrader.engine.journal.journal_file import JOURNAL, Journal
from upgrader.fleet.clusters import Answer
from upgrader.fleet.model import Goal
from upgrader.fleet.outcomes import CommandEnd, result_of
from upgrader.fleet.reports.calendar import calendar
from upgrader.fleet.reports.headline import fleet_headline
from upgrader.model.event import RunEnded, RunStarted
from upgrader.model.run_kind import RunKind
from upgrader.model.version import KubernetesVersion

GOAL = Goal(RunKind.FINALIZE, TARGET)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """One whose fleet is to be finalized."""
    made = Machine(tmp_path)
    (made.folder / "fleet.yaml").write_text(FLEET.replace("spec:", "spec:\n  action: finalize"))
    made.kind = RunKind.FINALIZE
    return made


def test_each_cluster_is_finalized_in_its_stage(machine: Machine) -> None:
    """The canary first; each by `upgrader finalize`, with what a run of a campaign is told."""
    campaign = begun(machine)
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done
    assert set(phases(campaign).values()) == {"succeeded"}
    assert [command[1].rpartition("/")[2] for command in machine.commands] == ["a", "b", "c"]
    for command in machine.commands:
        assert command[4:9] == ["finalize", "--only-at", str(TARGET), "--yes", "-o"] and "--approved-inputs" in command


def test_cluster_at_another_version_is_not_finalized(machine: Machine) -> None:
    """It would end the emulation of another upgrade: it waits for an operator, and the others go on."""
    machine.answers["b"] = Answer("u2", KubernetesVersion.release("v1.36.3"))
    campaign = begun(machine)
    decision, _ = coordinator(machine, campaign).run(lambda *_: None)
    assert phases(campaign) == {"a": "succeeded", "b": "waiting", "c": "succeeded"}
    assert decision.waits["b"].reason == "it runs v1.36.3; only a cluster that runs v1.37.1 can be finalized"


def test_interrupted_one_is_continued(machine: Machine) -> None:
    """By the same command, which begins a run of its own: the interrupted one's journal never gets an end."""
    machine.exit_codes = {"a": [130]}
    campaign = begun(machine)
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done
    assert set(phases(campaign).values()) == {"succeeded"} and machine.begun["a"] == 2
    assert "--resume" in machine.commands[1]


def test_cluster_that_emulates_nothing_is_done(tmp_path: Path) -> None:
    """Somebody else has finalized it, or a run that was killed before its last line: the command begins no run."""
    (tmp_path / "runs").mkdir()
    result = result_of(CommandEnd(0), "eu-1", tmp_path, GOAL, campaign="c", before="", resumed="")
    assert (result.outcome, result.run, result.reason) == ("succeeded", "", "it emulated no older version")


def test_reports_say_what_it_does() -> None:
    """The page's title and sentence, and the calendar's events."""
    shown = campaign_of(10)
    status = replace(shown.status, fleet=replace(shown.status.fleet, action=RunKind.FINALIZE))
    assert fleet_headline(status).title == "Fleet finalization of v1.37.1"
    assert "SUMMARY:Finalization of v1.37.1 begins" in calendar(status, shown.now)
    assert GOAL.reached == "run v1.37.1 and emulate no older version"


def test_upgrade_does_not_count_for_it(machine: Machine) -> None:
    """A run of another kind that a person has begun meanwhile isn't the campaign's."""
    folder = machine.folder / "clusters/a"
    name = "20260101T000009-v1.37.1"
    (folder / "runs" / name).mkdir(parents=True)
    journal = Journal(folder / "runs" / name / JOURNAL, machine.clock)
    journal.emit(RunStarted(name, RunKind.UPGRADE, (), f"runs/{name}", target=TARGET))
    journal.emit(RunEnded(name, "succeeded", 1.0))
    journal.close()
    assert result_of(None, "a", folder, GOAL, campaign="c", before="", resumed="").outcome == "interrupted"
    assert result_of(CommandEnd(0, name), "a", folder, GOAL, campaign="c", before="", resumed="").outcome == "broken"
