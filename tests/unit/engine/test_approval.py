"""A step that waits for a person begins with their approval, and with nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.engine.conftest import TARGET, Bench, run
from upgrader.engine.execution.approval import NAME, NAMESPACE, approve
from upgrader.engine.execution.runner import RunResult
from upgrader.engine.state.event_fold import follow
from upgrader.engine.state.run_state import RunState
from upgrader.errors import StepFailed, UsageError
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS
from upgrader.model.event import ApprovalRequested, Note, RollbackRequested, RunResumed, RunStarted, StepApproved
from upgrader.model.run_kind import RunKind
from upgrader.pipeline import Pipeline, PipelineStep

SECONDS = 60.0


def waiting(bench: Bench, name: str = "b", **script: Any) -> PipelineStep:
    """A step that needs an approval within a minute."""
    return replace(bench.step(name, **script), approval_seconds=SECONDS)


def meanwhile(bench: Bench, *acts: Callable[[], object]) -> None:
    """Have each of these happen while the run waits, one between two looks."""
    left, sleep = list(acts), bench.clock.sleep

    def act(seconds: float) -> None:
        sleep(seconds)
        if left and bench.kube.get(CONFIG_MAPS, NAME, NAMESPACE) is not None:
            left.pop(0)()

    bench.clock.sleep = act  # type: ignore[method-assign]


def annotate(bench: Bench, **notes: str) -> Callable[[], object]:
    """What a person writes with kubectl; `_` stands for `-`."""
    named = {f"upgrader.io/{name.replace('_', '-')}": text for name, text in notes.items()}
    return lambda: bench.kube.patch(CONFIG_MAPS, NAME, {"metadata": {"annotations": named}}, NAMESPACE)


def by_command(bench: Bench, step: str = "b") -> Callable[[], object]:
    return lambda: approve(bench.kube, step, "ann@desk", "the dashboards are green")


def of_type(bench: Bench, kind: type) -> list[Any]:
    return [event for event in bench.recorder.events if isinstance(event, kind)]


def test_begins_once_it_is_approved(bench: Bench) -> None:
    """Who approved, and why, are in the journal before the step begins; nothing is left in the cluster."""
    meanwhile(bench, lambda: None, by_command(bench))
    result = run(bench.runner(), bench.step("a"), waiting(bench), bench.step("c"))
    assert (result.outcome, bench.diary) == ("succeeded", ["apply a", "apply b", "apply c"])
    names = [type(event).__name__ for event in bench.recorder.events if getattr(event, "step", "") == "b"]
    assert names[:3] == ["ApprovalRequested", "StepApproved", "StepStarted"]
    assert of_type(bench, StepApproved) == [StepApproved("b", "ann@desk", "the dashboards are green")]
    assert bench.kube.get(CONFIG_MAPS, NAME, NAMESPACE) is None


def test_the_object_says_how_to_approve(bench: Bench) -> None:
    """Whoever has only kubectl finds the whole command in the object, and it works."""
    found: dict[str, str] = {}

    def look() -> None:
        item = bench.kube.get(CONFIG_MAPS, NAME, NAMESPACE)
        assert item is not None
        found.update(item["data"])

    meanwhile(bench, look, annotate(bench, approved="r1/b", approved_by="Ann", approved_because="ok"))
    assert run(bench.runner(), waiting(bench)).outcome == "succeeded"
    assert "annotate configmap upgrader-approval 'upgrader.io/approved=r1/b'" in found["approve-with"]


@pytest.mark.parametrize(
    ("notes", "said"),
    [
        ({"approved": "r1/c", "approved_by": "Ann", "approved_because": "ok"}, "the approval is for r1/c"),
        ({"approved": "r0/b", "approved_by": "Ann", "approved_because": "ok"}, "the approval is for r0/b"),
        ({"approved": "r1/b", "approved_by": "Ann"}, "lacks the approver or the reason"),
        ({"approved": "r1/b", "approved_because": "ok", "approved_by": " "}, "lacks the approver or the reason"),
    ],
)
def test_what_is_no_approval(bench: Bench, notes: dict[str, str], said: str) -> None:
    """One for another step or run, or of nobody, or without a reason, is told of once and counts for nothing."""
    meanwhile(bench, annotate(bench, **notes))
    result = run(bench.runner(), bench.step("a"), waiting(bench))
    assert (result.outcome, bench.diary) == ("interrupted", ["apply a"])
    (note,) = of_type(bench, Note)
    assert said in note.text and said in result.reason


def test_file_in_the_folder_of_the_run(bench: Bench, tmp_path: Path) -> None:
    """Whoever has no credentials approves with a file, also while the API is away; who and why are in the journal."""
    file = tmp_path / "approve-b"
    bench.kube.unavailable = True
    sleep = bench.clock.sleep
    bench.clock.sleep = lambda seconds: (sleep(seconds), file.write_text("Ann: the dashboards\n are: green\n"))[0]  # type: ignore[method-assign]
    result = run(bench.runner(folder=tmp_path), waiting(bench))
    assert (result.outcome, bench.diary) == ("succeeded", ["apply b"])
    assert of_type(bench, StepApproved) == [StepApproved("b", "Ann", "the dashboards are: green")]


@pytest.mark.parametrize("text", ["", "yes\n", ": green\n", "Ann: \n"])
def test_file_that_is_no_approval(bench: Bench, tmp_path: Path, text: str) -> None:
    """One without a name or a reason counts for nothing, as one for another step; the run says what it lacks."""
    (tmp_path / "approve-b").write_text(text)
    (tmp_path / "approve-c").write_text("Ann: ok\n")
    result = run(bench.runner(folder=tmp_path), waiting(bench))
    assert (result.outcome, bench.diary) == ("interrupted", [])
    (note,) = of_type(bench, Note)
    assert "approve-b must have one line" in note.text


def test_nobody_approves(bench: Bench) -> None:
    """The run ends at the deadline, and undoes nothing: it can be resumed, or rolled back."""
    result = run(bench.runner(), bench.step("a"), waiting(bench))
    assert result.outcome == "interrupted" and "no one approved step b within 60 s" in result.reason
    assert "upgrader resume" in result.remedy and "upgrader rollback" in result.remedy
    assert bench.diary == ["apply a"] and SECONDS <= bench.clock.monotonic() < SECONDS + 10
    assert bench.kube.get(CONFIG_MAPS, NAME, NAMESPACE) is None


def test_stop_while_it_waits(bench: Bench) -> None:
    """Ctrl-C ends the wait at once: nothing has begun that would have to be finished."""
    meanwhile(bench, lambda: setattr(bench.stop, "requested", True))
    result = run(bench.runner(), waiting(bench))
    assert result.outcome == "interrupted" and bench.clock.monotonic() < 10 and bench.diary == []


def test_api_that_does_not_answer_approves_of_nothing(bench: Bench) -> None:
    """The wait goes on while the API is away, and takes the approval once it is back."""

    def away() -> None:
        bench.kube.unavailable = True
        sleep = bench.clock.sleep

        def back(seconds: float) -> None:
            bench.kube.unavailable = False
            bench.clock.sleep = sleep  # type: ignore[method-assign]
            sleep(seconds)

        bench.clock.sleep = back  # type: ignore[method-assign]

    meanwhile(bench, away, by_command(bench))
    assert run(bench.runner(), waiting(bench)).outcome == "succeeded"
    assert any("whether it is approved" in note.text for note in of_type(bench, Note))


def resumed(bench: Bench, step: PipelineStep, *events: Any, why: Any = None) -> RunResult:
    """Resume a run of one step after these events."""
    state = RunState()
    began = RunStarted("r1", RunKind.UPGRADE, (step.step.name,), "/tmp/r1", TARGET)
    for event in (began, *events):
        state = follow(state, event, bench.clock.now())
    return bench.runner().resume(Pipeline((step,)), state, why or RunResumed("r1", "another"))


def test_resume_keeps_an_approval(bench: Bench) -> None:
    """What a person approved of in this run needs no second approval after an interruption."""
    result = resumed(bench, waiting(bench), ApprovalRequested("b", SECONDS), StepApproved("b", "ann", "ok"))
    assert (result.outcome, bench.diary) == ("succeeded", ["apply b"])
    assert of_type(bench, ApprovalRequested) == []


def test_resume_asks_where_nobody_approved(bench: Bench) -> None:
    """A run that was killed while it waited waits again; an approval that was given meanwhile counts."""
    item = {"metadata": {"name": NAME, "annotations": {}}, "data": {"run": "r1", "step": "b"}}
    bench.kube.put(CONFIG_MAPS, item, NAMESPACE)
    by_command(bench)()
    result = resumed(bench, waiting(bench), ApprovalRequested("b", SECONDS))
    assert result.outcome == "succeeded" and bench.clock.monotonic() < 10


def test_what_an_earlier_run_left_is_no_approval(bench: Bench) -> None:
    """The object of a run that was killed is replaced, with whatever was written to it."""
    item = {"metadata": {"name": NAME}, "data": {"run": "r0", "step": "b"}}
    bench.kube.put(CONFIG_MAPS, item, NAMESPACE)
    by_command(bench)()
    assert run(bench.runner(), waiting(bench)).outcome == "interrupted"


def test_the_way_back_waits_for_nobody(bench: Bench) -> None:
    """Neither the rollback of a failed run nor one that is requested needs an approval."""
    meanwhile(bench, by_command(bench))
    result = run(bench.runner(), waiting(bench, apply_error=StepFailed("bad")))
    assert (result.outcome, bench.diary) == ("rolled-back", ["apply b", "undo b to 1"])
    events = bench.recorder.events
    bench.recorder.events = []
    requested = RollbackRequested("r1", "ann")
    kept = [event for event in events if type(event).__name__ in ("StepStarted", "StepApplied")]
    assert resumed(bench, waiting(bench), *kept, why=requested).outcome == "rolled-back"
    assert of_type(bench, ApprovalRequested) == []


def test_approval_of_what_nobody_waits_for(bench: Bench) -> None:
    """An approval names a step that a run waits for, or is refused; it is never kept for later."""
    with pytest.raises(UsageError, match="no run of this cluster is waiting"):
        approve(bench.kube, "b", "ann", "ok")
    errors: list[str] = []

    def wrong() -> None:
        with pytest.raises(UsageError) as caught:
            approve(bench.kube, "kubernetes", "ann", "ok")
        errors.append(caught.value.message)

    meanwhile(bench, wrong, by_command(bench))
    assert run(bench.runner(), waiting(bench)).outcome == "succeeded"
    assert errors == ["run r1 waits for the approval of step b, not of kubernetes"]
