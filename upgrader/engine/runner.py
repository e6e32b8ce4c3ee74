"""Runs a pipeline: apply, gate, next; on a failure, back again in reverse order.

Everything that happens is emitted as an event before the next thing is done; the journal is one of the listeners,
so at any moment the disk says how far the run got. The way back of a step is captured, and on disk, before the
step changes anything. What comes next is decided by what was emitted, and by nothing else (`decide.py`): so a run that
was cut off goes on in another process as it would have in its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.engine.decide import Action, Begin, End, GoOn, Hold, Undo, next_action
from upgrader.engine.gatekeeper import hold_all
from upgrader.engine.lifeline import Lifeline
from upgrader.engine.state import RunState, follow
from upgrader.engine.stop import StopRequest
from upgrader.errors import ApiLost, ApiUnavailable, ChangedMeanwhile, Interrupted, UpgraderError
from upgrader.gates.api_absence import ApiAbsence
from upgrader.model.event import (
    Event,
    Note,
    RollbackAsked,
    RunEnded,
    RunResumed,
    RunStarted,
    StepApplied,
    StepEnded,
    StepSettled,
    StepStarted,
    UndoEnded,
    UndoStarted,
)
from upgrader.model.outcome import RunOutcome
from upgrader.model.release import RestorePoint
from upgrader.pipeline import GateRun, Pipeline, PipelineStep
from upgrader.ports import Clock, Kube, Recovery, Reporter

__all__ = ["RunResult", "Runner"]

UNDO_ATTEMPTS = 3
"""How often an undo is tried that loses the API in its middle."""
UNDO_PAUSE_SECONDS = 15.0
"""Before it is tried again although the API answers us: what keeps Helm from it may pass as well."""


@dataclass(frozen=True)
class RunResult:
    """How a run ended, and why (`reason` is empty when it succeeded)."""

    outcome: RunOutcome
    reason: str = ""
    remedy: str = ""


class Runner:
    """Carries out one pipeline, once."""

    def __init__(
        self,
        *,
        kube: Kube,
        clock: Clock,
        reporter: Reporter,
        stop: StopRequest,
        recovery: Recovery,
        patience_seconds: float,
    ) -> None:
        """`patience_seconds`: for how long the API may be away before `recovery` brings it back; infinity: for ever."""
        self._kube = kube
        self._clock = clock
        self._reporter = reporter
        self._stop = stop
        self._patience_seconds = patience_seconds
        self._lifeline = Lifeline(
            kube=kube, clock=clock, reporter=reporter, recovery=recovery, patience_seconds=patience_seconds
        )
        self._state = RunState()
        self._overdue = False
        """Whether the API was waited for in vain already, by the step that failed last."""

    def run(self, pipeline: Pipeline, began: RunStarted) -> RunResult:
        """Run to the end and say how it ended; raises for a bug, a second Ctrl-C, and a full disk only."""
        return self._work(pipeline, began)

    def go_on(self, pipeline: Pipeline, state: RunState, why: RunResumed | RollbackAsked) -> RunResult:
        """The same for a run that another process has begun. The pipeline must have every step that is left to do.

        Raises ChangedMeanwhile, and leaves the run as it was, where somebody else has changed what it was about.
        """
        self._state = state
        return self._work(pipeline, why)

    def _work(self, pipeline: Pipeline, first: Event) -> RunResult:
        started = self._clock.monotonic()
        items = {item.step.name: item for item in pipeline.steps}
        self._tell(first)
        while True:
            action = next_action(self._state)
            if isinstance(action, End):
                result = RunResult(action.outcome, action.reason, action.remedy)
                break
            try:
                self._stop.check(safe=_safe_to_stop(action))
            except Interrupted as error:
                result = RunResult("interrupted", error.message, error.remedy)
                break
            self._take(action, items[action.step])
        self._tell(RunEnded(self._state.run, result.outcome, self._clock.monotonic() - started, result.reason))
        return result

    def _take(self, action: Begin | GoOn | Hold | Undo, item: PipelineStep) -> None:
        match action:
            case Begin():
                self._forward(item, lambda began: self._begin(item, began))
            case GoOn():
                self._forward(item, lambda began: self._complete(item, began))
            case Hold():
                self._forward(item, lambda _: self._settled(item, True, "its change is in; its gates are held anew"))
            case Undo():
                self._undo(item, cut_off=action.cut_off)

    def _forward(self, item: PipelineStep, change: Callable[[float], None]) -> None:
        """Bring the change about, and hold the step's gates."""
        name, began = item.step.name, self._clock.monotonic()
        try:
            change(began)
            self._hold(name, item.gates)
        except ChangedMeanwhile:
            raise  # to take this back would undo somebody else's work
        except UpgraderError as error:
            self._overdue = isinstance(error, ApiLost)
            spent = self._clock.monotonic() - began
            self._tell(StepEnded(name, "failed", spent, error.message, error.remedy))
        else:
            self._tell(StepEnded(name, "passed", self._clock.monotonic() - began))

    def _begin(self, item: PipelineStep, began: float) -> None:
        way_back = item.step.capture()
        self._tell(StepStarted(item.step.name, item.step.summary(), way_back))
        self._apply(item, began)

    def _complete(self, item: PipelineStep, began: float) -> None:
        """Look before anything is done: the change may be in, or be at work still."""
        self._lifeline.secure(overdue=False)
        point = self._way_back(item)
        item.doubt.settle(point, self._note)
        found = item.doubt.look(point)
        self._settled(item, found.applied, found.words)
        if not found.applied:
            self._apply(item, began)

    def _settled(self, item: PipelineStep, applied: bool, found: str) -> None:
        self._tell(StepSettled(item.step.name, applied, found))

    def _apply(self, item: PipelineStep, began: float) -> None:
        item.step.apply(self._note)
        self._tell(StepApplied(item.step.name, self._clock.monotonic() - began))

    def _undo(self, item: PipelineStep, *, cut_off: bool) -> None:
        name, began, point = item.step.name, self._clock.monotonic(), self._way_back(item)
        assert point is not None
        self._tell(UndoStarted(name, str(point)))
        failure = self._go_back(item, point, cut_off=cut_off)
        spent = self._clock.monotonic() - began
        if failure is None:
            self._tell(UndoEnded(name, True, spent))
        else:
            self._tell(UndoEnded(name, False, spent, failure.message, failure.remedy))

    def _go_back(self, item: PipelineStep, point: RestorePoint, *, cut_off: bool) -> UpgraderError | None:
        """Undo one step and hold its gates; again where the API was lost meanwhile, as an undo can be repeated.

        Going back to a workload that can't have two instances side by side takes the API away once more.
        """
        failure: UpgraderError | None = None
        for attempt in range(UNDO_ATTEMPTS):
            if attempt and self._lifeline.holds:
                self._clock.sleep(UNDO_PAUSE_SECONDS)
            try:
                self._lifeline.secure(overdue=self._overdue)
            except UpgraderError as error:
                return error
            try:
                if cut_off:
                    item.doubt.settle(point, self._note)
                item.step.undo(point, self._note)
                self._hold(item.step.name, item.undo_gates)
                return None
            except UpgraderError as error:
                failure, self._overdue = error, isinstance(error, ApiLost)
                if not (isinstance(error, ApiLost | ApiUnavailable) or not self._lifeline.holds):
                    return failure
                self._note(f"the API server was lost on the way back: {error.message}")
        return failure

    def _way_back(self, item: PipelineStep) -> RestorePoint | None:
        step = self._state.step(item.step.name)
        return step.way_back if step else None

    def _hold(self, name: str, gates: tuple[GateRun, ...]) -> None:
        absence = ApiAbsence(self._kube, self._clock, self._patience_seconds)
        hold_all(name, gates, clock=self._clock, reporter=self._reporter, absence=absence)

    def _note(self, text: str) -> None:
        self._tell(Note(text))

    def _tell(self, event: Event) -> None:
        self._reporter.emit(event)
        self._state = follow(self._state, event)


def _safe_to_stop(before: Action) -> bool:
    """Half-known is no place to stop at: a step that was applied is gated, and one that failed is undone first."""
    return isinstance(before, Begin) or (isinstance(before, Undo) and before.safe_to_stop)
