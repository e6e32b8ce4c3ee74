"""How an attempt ended, by what its command said and by what the cluster's journal says."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from upgrader.engine.journal.journal_file import JOURNAL, Journal
from upgrader.fleet.model import Goal
from upgrader.fleet.outcomes import CommandEnd, Result, result_of
from upgrader.model.event import Event, RunEnded, RunStarted, StepEnded, StepStarted, UndoEnded, UndoStarted
from upgrader.model.outcome import RunOutcome
from upgrader.model.release import RestorePoint
from upgrader.model.run_kind import RunKind
from upgrader.model.version import KubernetesVersion

CAMPAIGN = "20251231T000000-fleet-v1.37.1"
TARGET = KubernetesVersion.release("v1.37.1")
GOAL = Goal(RunKind.UPGRADE, TARGET)
HOP = KubernetesVersion.release("v1.36.3")
FIRST, SECOND = "20260101T000001-v1.37.1", "20260101T000002-v1.37.1"


def write_run(
    folder: Path,
    name: str = FIRST,
    outcome: RunOutcome | None = None,
    target: object = TARGET,
    *events: Event,
    campaign: str = CAMPAIGN,
) -> None:
    run = folder / "runs" / name
    run.mkdir(parents=True)
    journal = Journal(run / JOURNAL, FakeClock())
    started = RunStarted(name, RunKind.UPGRADE, (), f"runs/{name}", target=TARGET, campaign=campaign)
    journal.emit(replace(started, target=target))  # type: ignore[arg-type]
    for event in events:
        journal.emit(event)
    if outcome:
        journal.emit(RunEnded(name, outcome, 1.0))
    journal.close()


def write_rolled_back(folder: Path, left: str, outcome: RunOutcome | None) -> None:
    """A run whose rollback has `left` something failing."""
    name, point = "kube-apiserver", RestorePoint("kube-apiserver", "kube-system", 1)
    write_run(
        folder,
        FIRST,
        outcome,
        TARGET,
        StepStarted(name, "v1 → v2", point),
        StepEnded(name, "failed", 1.0, "no"),
        UndoStarted(name, str(point)),
        UndoEnded(name, True, 1.0, left),
    )


def damage(folder: Path, name: str = FIRST) -> None:
    (folder / "runs" / name).mkdir(parents=True, exist_ok=True)
    (folder / "runs" / name / JOURNAL).write_text("{}\n")


def ended(folder: Path, end: CommandEnd | None, *, before: str = "", resumed: str = "") -> Result:
    found = result_of(end, "eu-1", folder, GOAL, campaign=CAMPAIGN, before=before, resumed=resumed)
    return replace(found, time=None)


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5, 6, 130])
def test_resume_that_ends_before_it_names_its_run(tmp_path: Path, code: int) -> None:
    """Whatever it ends with, the run is as open as before, and is to be resumed."""
    write_run(tmp_path)
    result = ended(tmp_path, CommandEnd(code, "", "E", "no kubeconfig"), before=FIRST, resumed=FIRST)
    assert result == Result("interrupted", FIRST, "E: no kubeconfig", "no kubeconfig", open=True)


@pytest.mark.parametrize(("outcome", "expected"), [("succeeded", "succeeded"), ("rolled-back", "rolled-back")])
def test_run_that_a_person_has_ended_meanwhile(tmp_path: Path, outcome: RunOutcome, expected: str) -> None:
    """A resume that finds nothing to resume leaves what the journal says."""
    write_run(tmp_path, outcome=outcome)
    result = ended(tmp_path, CommandEnd(2, "", "E", "nothing to resume"), before=FIRST, resumed=FIRST)
    assert (result.outcome, result.run, result.open) == (expected, FIRST, False)


def test_failed_run_that_a_person_has_ended_meanwhile(tmp_path: Path) -> None:
    """A run that failed for good needs a person."""
    write_run(tmp_path, outcome="failed")
    assert ended(tmp_path, None, before=FIRST, resumed=FIRST).outcome == "broken"


@pytest.mark.parametrize(
    "end", [None, CommandEnd(6, "", "Locked", "locked"), CommandEnd(5, "", "JournalError", "full")]
)
def test_run_that_its_command_could_not_name(tmp_path: Path, end: CommandEnd | None) -> None:
    """A run that was begun since, and has no end, is open, although the command's last line doesn't name it."""
    write_run(tmp_path, outcome="succeeded")
    write_run(tmp_path, SECOND)
    result = ended(tmp_path, end, before=FIRST)
    assert (result.outcome, result.run, result.open) == ("interrupted", SECOND, True)


def test_someone_elses_run(tmp_path: Path) -> None:
    """A success that the campaign's command doesn't call its own completes nothing."""
    write_run(tmp_path, outcome="succeeded", campaign="")
    result = ended(tmp_path, CommandEnd(6, "", "Locked", "locked"))
    assert (result.outcome, result.run, result.open) == ("interrupted", "", False)


@pytest.mark.parametrize("outcome", ["succeeded", "rolled-back"])
@pytest.mark.parametrize("code", [0, 3, 6, 130])
def test_run_of_an_earlier_process_of_the_attempt(tmp_path: Path, code: int, outcome: RunOutcome) -> None:
    """A Job's second pod begins nothing, as the first one has ended the run: that run counts, as it ended, if it is
    this campaign's.
    """
    end = CommandEnd(code, "", "Blocked", "run x of this cluster has ended")
    write_run(tmp_path, FIRST, outcome)
    result = ended(tmp_path, end)
    assert (result.outcome, result.run, result.open) == (outcome, FIRST, False)
    write_run(tmp_path, SECOND, outcome, campaign="20251231T000001-fleet-v1.37.1")
    assert ended(tmp_path, end, before=FIRST).run == ""


@pytest.mark.parametrize("mine", [None, "rolled-back"])
@pytest.mark.parametrize("theirs", ["succeeded", "rolled-back"])
def test_run_that_a_person_made_after_a_job_that_is_gone(
    tmp_path: Path, mine: RunOutcome | None, theirs: RunOutcome
) -> None:
    """A Job that its TTL has deleted says nothing: the campaign's own run counts, and never a person's after it."""
    if mine:
        write_run(tmp_path, FIRST, mine)
    write_run(tmp_path, SECOND, theirs, campaign="")
    result = ended(tmp_path, None)
    assert (result.outcome, result.run, result.open) == (mine or "interrupted", FIRST if mine else "", False)


@pytest.mark.parametrize("end", [None, CommandEnd(130, FIRST), CommandEnd(0, FIRST), CommandEnd(3, "")])
@pytest.mark.parametrize("there", [True, False])
def test_journal_that_does_not_say(tmp_path: Path, end: CommandEnd | None, there: bool) -> None:
    """A journal that is damaged, or gone, leaves the run open: what isn't known keeps its place."""
    if there:
        damage(tmp_path)
    result = ended(tmp_path, end, before=FIRST, resumed=FIRST)
    assert (result.outcome, result.run, result.open) == ("interrupted", FIRST, True)
    assert f"the outcome of run {FIRST} is unknown" in result.reason
    assert ("not valid" if there else "it has no journal") in result.reason


def test_command_that_says_more_than_a_damaged_journal(tmp_path: Path) -> None:
    """A run that was rolled back, as its command says, is."""
    damage(tmp_path)
    assert ended(tmp_path, CommandEnd(4, FIRST, "GateFailed", "x")).outcome == "rolled-back"


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize(("left", "expected"), [("", "rolled-back"), ("APIService x fails now", "broken")])
def test_rolled_back_with_something_left_failing(tmp_path: Path, left: str, expected: str, said: bool) -> None:
    """What worked before the run and fails after its rollback needs a person, whether or not the command could say how
    it ended: it doesn't count as a rollback.
    """
    write_rolled_back(tmp_path, left, "rolled-back")
    result = ended(tmp_path, CommandEnd(4, FIRST, "StepFailed", f"rolled back; {left}") if said else None)
    assert (result.outcome, result.run, result.open) == (expected, FIRST, False)
    assert left in result.reason


def test_reason_says_why_a_run_was_rolled_back(tmp_path: Path) -> None:
    """`fleet status` shows the cause, too, without the lines of its details."""
    write_rolled_back(tmp_path, "", "rolled-back")
    what, why = (
        "The run was rolled back; the cluster is healthy.",
        "gate continuity broken: no token is accepted\ndetail",
    )
    result = ended(tmp_path, CommandEnd(4, FIRST, "StepFailed", what, why))
    assert (result.outcome, result.reason) == (
        "rolled-back",
        "The run was rolled back; the cluster is healthy: gate continuity broken: no token is accepted",
    )


def test_folder_whose_runs_are_gone(tmp_path: Path) -> None:
    """Where there was a run before, and there is none now, nothing is known."""
    assert ended(tmp_path, None, before=FIRST).open


@pytest.mark.parametrize(("before", "resumed"), [(SECOND, ""), ("", SECOND), (SECOND, SECOND)])
def test_old_run_stands_for_no_later_one(tmp_path: Path, before: str, resumed: str) -> None:
    """Where the run that was known before isn't there any more, an older success is not this attempt's."""
    write_run(tmp_path, outcome="succeeded")
    result = ended(tmp_path, None, before=before, resumed=resumed)
    assert (result.outcome, result.run, result.open) == ("interrupted", SECOND, True)


@pytest.mark.parametrize("end", [None, CommandEnd(130, FIRST), CommandEnd(6, "", "Locked", "locked")])
def test_between_two_hops(tmp_path: Path, end: CommandEnd | None) -> None:
    """A cluster that has reached a version on the way is neither at the old one nor at the new one."""
    write_run(tmp_path, outcome="succeeded", target=HOP)
    resumed = "" if end is None or end.run else FIRST
    result = ended(tmp_path, end, before=resumed, resumed=resumed)
    assert (result.outcome, result.run, result.open) == ("interrupted", FIRST, True)


@pytest.mark.parametrize("resumed", ["", FIRST])
@pytest.mark.parametrize(
    ("code", "error", "expected"),
    [
        (2, "UsageError", "blocked"),
        (3, "Blocked", "blocked"),
        (4, "StepFailed", "rolled-back"),
        (5, "HelmError", "blocked"),
        (5, "ApiUnavailable", "interrupted"),
        (1, "KeyError", "broken"),
    ],
)
def test_next_hop_that_was_not_begun(tmp_path: Path, code: int, error: str, expected: str, resumed: str) -> None:
    """A hop that a check blocks, or whose API doesn't answer, leaves the cluster healthy where the hop before has
    brought it: that run isn't broken, and the reason says where the cluster is.
    """
    write_run(tmp_path, outcome="succeeded", target=HOP)
    named = "" if resumed else FIRST
    result = ended(tmp_path, CommandEnd(code, named, error, "why"), before=resumed, resumed=resumed)
    assert (result.outcome, result.run, result.open) == (expected, FIRST, expected == "interrupted")
    assert result.reason == "at v1.36.3, on the way to v1.37.1: why" and result.cause == f"{error}: why"


@pytest.mark.parametrize("valid", [True, False])
def test_next_hop_that_its_command_could_not_name(tmp_path: Path, valid: bool) -> None:
    """A command whose second run could not end names the first one: the second one is open."""
    write_run(tmp_path, outcome="succeeded", target=HOP)
    write_run(tmp_path, SECOND) if valid else damage(tmp_path, SECOND)
    result = ended(tmp_path, CommandEnd(5, FIRST, "JournalError", "the disk is full"))
    assert (result.outcome, result.run, result.open) == ("interrupted", SECOND, True)


def test_hop_that_was_rolled_back(tmp_path: Path) -> None:
    """The last hop is the one that counts."""
    write_run(tmp_path, outcome="succeeded", target=HOP)
    write_run(tmp_path, SECOND, outcome="rolled-back")
    assert ended(tmp_path, CommandEnd(4, SECOND, "GateFailed", "x")).outcome == "rolled-back"
    assert ended(tmp_path, None).outcome == "rolled-back"


@pytest.mark.parametrize("resumed", ["", FIRST])
def test_recovery_of_a_run_that_was_killed(tmp_path: Path, resumed: str) -> None:
    """A person who makes the API answer again has not ended the upgrade, which is still open."""
    write_run(tmp_path)
    run = tmp_path / "runs/20260101T000003-recover"
    run.mkdir()
    journal = Journal(run / JOURNAL, FakeClock())
    journal.emit(RunStarted(run.name, RunKind.RECOVER, (), f"runs/{run.name}"))
    journal.emit(RunEnded(run.name, "succeeded", 1.0))
    journal.close()
    result = ended(tmp_path, None, before=resumed, resumed=resumed)
    assert (result.outcome, result.run, result.open) == ("interrupted", FIRST, True)


def test_run_that_someone_began_afterwards(tmp_path: Path) -> None:
    """It isn't the campaign's, whose own run was rolled back before that."""
    write_run(tmp_path, outcome="rolled-back")
    write_run(tmp_path, SECOND, campaign="")
    end = CommandEnd(4, FIRST, "GateFailed", "x", time=FakeClock().now() - timedelta(seconds=1))
    assert ended(tmp_path, end) == Result("rolled-back", FIRST, "GateFailed: x", "x")


@pytest.mark.parametrize(
    ("error", "expected"), [("ApiUnavailable", "interrupted"), ("ApiError", "blocked"), ("HelmError", "blocked")]
)
def test_error_before_any_run(tmp_path: Path, error: str, expected: str) -> None:
    """Nothing was begun, so that nothing is broken; a cluster whose API didn't answer is asked again."""
    write_run(tmp_path, outcome="succeeded", target=HOP)
    result = ended(tmp_path, CommandEnd(5, "", error, "why"), before=FIRST)
    assert result == Result(expected, "", f"{error}: why", "why")  # type: ignore[arg-type]


def test_success_without_a_run_that_reached_the_target(tmp_path: Path) -> None:
    """Exit code 0 alone is no success: a journal must say so."""
    write_run(tmp_path, outcome="succeeded", target=HOP)
    assert ended(tmp_path, CommandEnd(0, FIRST)).outcome == "broken"
    assert ended(tmp_path, CommandEnd(0, ""), before=FIRST).outcome == "broken"


def test_process_that_ended_before_its_run(tmp_path: Path) -> None:
    """Nothing was begun, so nothing is open."""
    assert ended(tmp_path, None) == Result("interrupted", reason="its process ended before it started a run")


@pytest.mark.parametrize(
    ("code", "outcome"), [(0, "succeeded"), (3, "blocked"), (4, "broken"), (5, "broken"), (130, "interrupted")]
)
def test_exit_code_counts_where_the_journal_can_not_be_read(tmp_path: Path, code: int, outcome: str) -> None:
    """Of a Job whose cluster doesn't answer, the exit code alone is known; a failure says so. It doesn't say whether a
    rollback has left something failing, which is then not taken for healthy.
    """
    end = CommandEnd(code, "r", "Code" if code else "", "it ended", unread="no answer")
    result = result_of(end, "a", tmp_path, GOAL, campaign=CAMPAIGN, before="", resumed="")
    assert (result.outcome, result.run, result.open) == (outcome, "r", outcome == "interrupted")
    assert outcome in ("succeeded", "interrupted") or "can't be read: no answer" in result.reason


@pytest.mark.parametrize(
    ("left", "outcome", "expected"),
    [("", "rolled-back", "rolled-back"), ("APIService x fails now", "rolled-back", "broken"), ("", None, "broken")],
)
def test_journal_that_was_brought_home_before(
    tmp_path: Path, left: str, outcome: RunOutcome | None, expected: str
) -> None:
    """What a coordinator that was killed has fetched says how the rollback ended, if it has its end."""
    write_rolled_back(tmp_path, left, outcome)
    result = ended(tmp_path, CommandEnd(4, FIRST, "GateFailed", "x", unread="no answer"))
    assert (result.outcome, result.run, result.open) == (expected, FIRST, False)
    assert ("no answer" in result.reason) == (outcome is None)


@pytest.mark.parametrize("resumed", ["", FIRST])
@pytest.mark.parametrize(
    ("code", "error"), [(0, ""), (3, "Blocked"), (5, "ApiUnavailable"), (5, "JournalError"), (6, "Locked")]
)
def test_no_run_is_named_and_no_journal_can_be_read(tmp_path: Path, code: int, error: str, resumed: str) -> None:
    """Whatever the exit code, a run may be in the middle: the one that was to be resumed is not forgotten."""
    end = CommandEnd(code, "", error, "it ended", unread="no answer")
    result = result_of(end, "a", tmp_path, GOAL, campaign=CAMPAIGN, before="", resumed=resumed)
    assert (result.outcome, result.run, result.open) == ("interrupted", resumed, True)


def test_run_that_began_before_its_job_started_again(tmp_path: Path) -> None:
    """A queue that stops a Job for a more important one gives it another start time, with only the rest of its run; the
    journal knows when the run began. An earlier run of the cluster says nothing.
    """
    write_run(tmp_path, FIRST, "succeeded")
    write_run(tmp_path, SECOND, "succeeded")
    begun = FakeClock().now()
    end = CommandEnd(0, SECOND, time=begun + timedelta(hours=9), began=begun + timedelta(hours=8))
    assert ended(tmp_path, end, before=FIRST).began == begun
    assert ended(tmp_path, replace(end, run=FIRST), before=FIRST).began == end.began
    assert ended(tmp_path, end, before=FIRST, resumed=SECOND).began == end.began
