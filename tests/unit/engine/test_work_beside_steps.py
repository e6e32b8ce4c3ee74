"""What a step leaves to be done beside the next ones: done before the step that needs it, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from tests.unit.engine.conftest import Bench, run
from upgrader.errors import Interrupted, StepFailed
from upgrader.model.event import Note, StepEnded, StepStarted
from upgrader.pipeline import PipelineStep


@dataclass
class Work:
    """`pipeline.Beside` that writes what is asked of it into the diary."""

    diary: list[str]
    needed_by: str = "c"
    error: StepFailed | None = None
    meanwhile: Callable[[], None] = lambda: None
    stopped: Callable[[], bool] = lambda: False

    def complete(self, note: Callable[[str], None], check: Callable[[], None]) -> None:
        self.diary.append("complete")
        note("waiting for the work")
        self.meanwhile()
        if self.error is not None:
            raise self.error

    def end_if(self, stopped: Callable[[], bool]) -> None:
        self.stopped = stopped

    def end(self, *, wait: bool) -> None:
        self.diary.append("end, and wait" if wait else "end")


def steps(bench: Bench, work: Work) -> list[PipelineStep]:
    """Three steps; the first one leaves the work."""
    first, *others = (bench.step(name) for name in "abc")
    return [replace(first, beside=work), *others]


def test_work_is_complete_before_the_step_that_needs_it(bench: Bench) -> None:
    """The steps in between don't wait for it; what it tells is in the journal."""
    result = run(bench.runner(), *steps(bench, Work(bench.diary)))
    assert result.outcome == "succeeded"
    assert bench.diary == ["apply a", "apply b", "complete", "apply c", "end, and wait"]
    assert Note("waiting for the work") in bench.recorder.events


def test_work_that_fails_fails_the_step_that_needs_it(bench: Bench) -> None:
    """That one was not begun, so only the steps before it are undone; first, the work ends without a wait."""
    result = run(bench.runner(), *steps(bench, Work(bench.diary, error=StepFailed("n3 can't pull x", remedy="Look."))))
    assert (result.outcome, result.reason) == ("rolled-back", "n3 can't pull x")
    assert bench.diary == [
        "apply a",
        "apply b",
        "complete",
        "end",
        "undo b to 1",
        "end",
        "undo a to 1",
        "end, and wait",
    ]
    assert not any(isinstance(event, StepStarted) and event.step == "c" for event in bench.recorder.events)
    (failed,) = (event for event in bench.recorder.events if isinstance(event, StepEnded) and event.step == "c")
    assert (failed.outcome, failed.remedy) == ("failed", "Look.")


def test_way_back_does_not_wait_for_the_work(bench: Bench) -> None:
    """kube-apiserver that fails is undone at once."""
    work = Work(bench.diary)
    first, _, last = steps(bench, work)
    run(bench.runner(), first, bench.step("b", apply_error=StepFailed("bad flag")), last)
    assert bench.diary[:4] == ["apply a", "apply b", "end", "undo b to 1"]
    assert bench.diary[-1] == "end, and wait"


def test_run_that_is_stopped_during_the_wait_begins_nothing(bench: Bench) -> None:
    """A step that waits for the work is not begun when that is done, if the run was asked to stop meanwhile."""
    work = Work(bench.diary, meanwhile=lambda: setattr(bench.stop, "requested", True))
    result = run(bench.runner(), *steps(bench, work))
    assert result.outcome == "interrupted"
    assert bench.diary == ["apply a", "apply b", "complete", "end, and wait"]


def test_lock_that_was_lost_during_the_wait_is_noticed(bench: Bench) -> None:
    """A machine that slept meanwhile asks for it before it begins the step."""
    work, lost = Work(bench.diary), list[bool]()
    work.meanwhile = lambda: lost.append(True)

    def confirm() -> None:
        if lost:
            raise Interrupted("another process has the lock")

    assert run(bench.runner(confirm_lock=confirm), *steps(bench, work)).outcome == "interrupted"
    assert "apply c" not in bench.diary


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_work_ends_with_a_run_that_breaks_off(bench: Bench, error: type[BaseException]) -> None:
    """A bug, or a second Ctrl-C: no thread goes on."""

    def break_off() -> None:
        raise error

    first, _, last = steps(bench, Work(bench.diary))
    with pytest.raises(error):
        run(bench.runner(), first, bench.step("b", on_apply=break_off), last)
    assert bench.diary[-1] == "end, and wait"


def test_work_is_told_at_once_that_the_lock_is_lost(bench: Bench) -> None:
    """While a step's gates are checked, nothing else of the run asks for minutes."""
    work, told = Work(bench.diary), list[bool]()

    def lose() -> None:
        told.append(work.stopped())
        bench.stop.forbid("another process has the lock")
        told.append(work.stopped())

    first, _, last = steps(bench, work)
    run(bench.runner(), first, bench.step("b", on_apply=lose), last)
    assert told == [False, True]


def test_work_that_fails_without_the_lock_fails_nothing(bench: Bench) -> None:
    """The process that took it over has removed what this one waited for: the step is its to begin, or to fail."""
    work, lost = Work(bench.diary, error=StepFailed("its pod was deleted")), list[bool]()
    work.meanwhile = lambda: lost.append(True)

    def confirm() -> None:
        if lost:
            bench.stop.forbid("another process has the lock")

    assert run(bench.runner(confirm_lock=confirm), *steps(bench, work)).outcome == "interrupted"
    assert not any(isinstance(event, StepEnded) and event.step == "c" for event in bench.recorder.events)
