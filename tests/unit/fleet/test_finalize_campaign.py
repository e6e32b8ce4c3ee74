"""A campaign whose runs end the emulation of the old minor, with the stages, soaks and limits of any other."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fleet_campaigns import campaign_of
from testkit.fleet_machine import FLEET, TARGET, Machine, begun, coordinator, phases
from upgrader.engine.journal.journal_file import JOURNAL, Journal
from upgrader.errors import Blocked
from upgrader.fleet.clusters import Answer
from upgrader.fleet.fleet_folder import read_fleet
from upgrader.fleet.model import Goal
from upgrader.fleet.open_runs import refuse_open_runs
from upgrader.fleet.outcomes import CommandEnd, result_of
from upgrader.fleet.reports.calendar import calendar
from upgrader.fleet.reports.headline import fleet_headline
from upgrader.fleet.state import CampaignState
from upgrader.model.event import RunEnded, RunStarted
from upgrader.model.outcome import RunOutcome
from upgrader.model.run_kind import RunKind
from upgrader.model.version import KubernetesVersion

GOAL = Goal(RunKind.FINALIZE, TARGET)
RUN = "20260101T000001-finalize"


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
    first, *others = [command[1].rpartition("/")[2] for command in machine.commands]
    assert first == "a" and sorted(others) == ["b", "c"], "those of one stage begin as their folders were read"
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


def write_finalize(folder: Path, name: str, outcome: RunOutcome | None, target: KubernetesVersion = TARGET) -> None:
    run = folder / "runs" / name
    run.mkdir(parents=True)
    journal = Journal(run / JOURNAL, FakeClock())
    journal.emit(RunStarted(name, RunKind.FINALIZE, (), f"runs/{name}", target=target, campaign="c"))
    if outcome:
        journal.emit(RunEnded(name, outcome, 1.0))
    journal.close()


@pytest.mark.parametrize(
    ("outcome", "counts"), [("succeeded", "succeeded"), ("failed", "broken"), ("rolled-back", "rolled-back")]
)
def test_job_that_finds_nothing_left_counts_by_the_run_it_began(
    tmp_path: Path, outcome: RunOutcome, counts: str
) -> None:
    """Its first pod's run has failed after the last emulation had ended: the second pod's exit code 0 hides nothing."""
    write_finalize(tmp_path, RUN, outcome)
    result = result_of(CommandEnd(0), "eu-1", tmp_path, GOAL, campaign="c", before="", resumed="")
    assert (result.outcome, result.run) == (counts, RUN)


def test_finalize_at_another_version_is_no_step_on_the_way(tmp_path: Path) -> None:
    """It is no hop of several, to be continued for ever."""
    write_finalize(tmp_path, RUN, "succeeded", KubernetesVersion.release("v1.36.3"))
    result = result_of(None, "eu-1", tmp_path, GOAL, campaign="c", before="", resumed="")
    assert (result.outcome, result.open) == ("broken", False)


@pytest.mark.parametrize(("outcome", "refused"), [(None, True), ("succeeded", False)])
def test_new_campaign_is_refused_while_a_finalize_is_open(
    machine: Machine, outcome: RunOutcome | None, refused: bool
) -> None:
    """It may still be in progress: another campaign would forget it."""
    write_finalize(machine.folder / "clusters/a", RUN, outcome)
    fleet = read_fleet(machine.folder, machine.clock.now())
    expected = pytest.raises(Blocked, match=f"a \\(run {RUN}\\)") if refused else nullcontext()
    with expected as caught:
        refuse_open_runs(fleet, fleet, CampaignState(), lambda *_: "it may be in progress")
    if caught is not None:
        assert f"upgrader -C {machine.folder}/clusters/a finalize" in caught.value.remedy


def test_reports_say_what_it_does() -> None:
    """The page's title and sentence, and the calendar's events."""
    shown = campaign_of(10)
    status = replace(shown.status, fleet=replace(shown.status.fleet, action=RunKind.FINALIZE))
    assert fleet_headline(status, ()).title == "Fleet finalization of v1.37.1"
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
