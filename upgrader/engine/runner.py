"""Runs a pipeline: apply, gate, next; on a failure, back again in reverse order.

Everything that happens is emitted as an event before the next thing is done; the journal is one of the listeners,
so at any moment the disk says how far the run got. The way back of a step is captured, and on disk, before the
step changes anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from upgrader.engine.gatekeeper import hold_all
from upgrader.engine.lifeline import Lifeline
from upgrader.engine.stop import StopRequest
from upgrader.errors import ApiLost, ApiUnavailable, Interrupted, UpgraderError
from upgrader.gates.absence import ApiAbsence
from upgrader.model.event import Note, RunEnded, RunStarted, StepApplied, StepEnded, StepStarted, UndoEnded, UndoStarted
from upgrader.model.outcome import RunOutcome
from upgrader.model.release import RestorePoint
from upgrader.model.settings import OnFailure
from upgrader.pipeline import GateRun, Pipeline, PipelineStep
from upgrader.ports import Clock, Kube, Recovery, Reporter

__all__ = ["RunResult", "Runner"]

UNDO_ATTEMPTS = 3
"""How often an undo is tried that loses the API in its middle."""


@dataclass(frozen=True)
class RunResult:
    """How a run ended, and why (`reason` is empty when it succeeded)."""

    outcome: RunOutcome
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class _Done:
    """A step that was started, with its way back."""

    step: PipelineStep
    way_back: RestorePoint


class Runner:
    """Carries out one pipeline, once."""

    def __init__(
        self,
        *,
        kube: Kube,
        clock: Clock,
        reporter: Reporter,
        stop: StopRequest,
        on_failure: OnFailure,
        recovery: Recovery,
        patience_seconds: float,
    ) -> None:
        """`patience_seconds`: for how long the API may be away before `recovery` brings it back; infinity: for ever."""
        self._kube = kube
        self._clock = clock
        self._reporter = reporter
        self._stop = stop
        self._on_failure = on_failure
        self._patience_seconds = patience_seconds
        self._lifeline = Lifeline(
            kube=kube, clock=clock, reporter=reporter, recovery=recovery, patience_seconds=patience_seconds
        )

    def run(self, pipeline: Pipeline, *, run: str, target: str, folder: str) -> RunResult:
        """Run to the end and say how it ended; raises only for a bug or a second Ctrl-C."""
        started = self._clock.monotonic()
        names = tuple(item.step.name for item in pipeline.steps)
        self._reporter.emit(RunStarted(run, target, names, folder))
        result = self._forward(pipeline)
        self._reporter.emit(RunEnded(run, result.outcome, self._clock.monotonic() - started, result.reason))
        return result

    def _forward(self, pipeline: Pipeline) -> RunResult:
        done: list[_Done] = []
        for item in pipeline.steps:
            began = self._clock.monotonic()
            try:
                self._stop.check()
                way_back = item.step.capture()
                self._reporter.emit(StepStarted(item.step.name, item.step.summary(), way_back))
                if way_back is not None:
                    done.append(_Done(item, way_back))
                self._carry_out(item, began)
            except Interrupted as error:
                return RunResult("interrupted", error.message, error.remedy)
            except UpgraderError as error:
                spent = self._clock.monotonic() - began
                self._reporter.emit(StepEnded(item.step.name, "failed", spent, error.message))
                return self._backward(done, error)
        return RunResult("succeeded")

    def _carry_out(self, item: PipelineStep, began: float) -> None:
        name = item.step.name
        item.step.apply(self._note)
        self._reporter.emit(StepApplied(name, self._clock.monotonic() - began))
        # A step that was applied is gated even when a stop is asked for: half-known is no place to stop at.
        self._hold(name, item.gates)
        self._reporter.emit(StepEnded(name, "passed", self._clock.monotonic() - began))

    def _backward(self, done: list[_Done], error: UpgraderError) -> RunResult:
        """Undo what policy says, newest first. One failed undo does not stop the rest."""
        if self._on_failure == "stop" or not done:
            return RunResult("failed", error.message, error.remedy)
        back = done[-1:] if self._on_failure == "rollback-step" else done
        overdue = isinstance(error, ApiLost)
        failures = [failure for item in reversed(back) if (failure := self._undo(item, overdue=overdue)) is not None]
        if failures:
            reason = "\n".join([error.message, "…and the way back failed:", *(f.message for f in failures)])
            return RunResult("failed", reason, failures[0].remedy or error.remedy)
        return RunResult("rolled-back", error.message, error.remedy)

    def _undo(self, done: _Done, *, overdue: bool) -> UpgraderError | None:
        name, began = done.step.step.name, self._clock.monotonic()
        self._reporter.emit(UndoStarted(name, str(done.way_back)))
        failure = self._go_back(done, overdue=overdue)
        spent = self._clock.monotonic() - began
        self._reporter.emit(UndoEnded(name, failure is None, spent, failure.message if failure else ""))
        return failure

    def _go_back(self, done: _Done, *, overdue: bool) -> UpgraderError | None:
        """Undo one step and hold its gates; again where the API was lost meanwhile, as an undo can be repeated.

        Going back to a workload that can't have two instances side by side takes the API away once more.
        """
        failure: UpgraderError | None = None
        for _ in range(UNDO_ATTEMPTS):
            try:
                self._lifeline.secure(overdue=overdue)
            except UpgraderError as error:
                return error
            try:
                done.step.step.undo(done.way_back, self._note)
                self._hold(done.step.step.name, done.step.undo_gates)
                return None
            except UpgraderError as error:
                failure, overdue = error, isinstance(error, ApiLost)
                if not (isinstance(error, ApiLost | ApiUnavailable) or not self._lifeline.holds):
                    return failure
                self._note(f"the API server was lost on the way back: {error.message}")
        return failure

    def _hold(self, name: str, gates: tuple[GateRun, ...]) -> None:
        absence = ApiAbsence(self._kube, self._clock, self._patience_seconds)
        hold_all(name, gates, clock=self._clock, reporter=self._reporter, absence=absence)

    def _note(self, text: str) -> None:
        self._reporter.emit(Note(text))
