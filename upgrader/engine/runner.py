"""Runs a pipeline: apply, gate, next; on a failure, back again in reverse order.

Everything that happens is emitted as an event before the next thing is done; the journal is one of the listeners,
so at any moment the disk says how far the run got. The way back of a step is captured, and on disk, before the
step changes anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from upgrader.engine.gatekeeper import hold_all
from upgrader.engine.stop import StopRequest
from upgrader.errors import ApiError, Interrupted, RollbackFailed, UpgraderError
from upgrader.model.event import Note, RunEnded, RunStarted, StepApplied, StepEnded, StepStarted, UndoEnded, UndoStarted
from upgrader.model.outcome import RunOutcome
from upgrader.model.release import RestorePoint
from upgrader.model.settings import OnFailure
from upgrader.pipeline import Pipeline, PipelineStep
from upgrader.ports import Clock, Kube, Reporter
from upgrader.waiting import wait_until

__all__ = ["RunResult", "Runner"]

API_RETURNS_SECONDS = 300.0
"""How long the way back waits for an API that is away: a rebooting controller needs about one minute."""


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
        self, *, kube: Kube, clock: Clock, reporter: Reporter, stop: StopRequest, on_failure: OnFailure
    ) -> None:
        self._kube = kube
        self._clock = clock
        self._reporter = reporter
        self._stop = stop
        self._on_failure = on_failure

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
        hold_all(name, item.gates, clock=self._clock, reporter=self._reporter)
        self._reporter.emit(StepEnded(name, "passed", self._clock.monotonic() - began))

    def _backward(self, done: list[_Done], error: UpgraderError) -> RunResult:
        """Undo what policy says, newest first. One failed undo does not stop the rest."""
        if self._on_failure == "stop" or not done:
            return RunResult("failed", error.message, error.remedy)
        back = done[-1:] if self._on_failure == "rollback-step" else done
        failures = [failure for item in reversed(back) if (failure := self._undo(item)) is not None]
        if failures:
            reason = "\n".join([error.message, "…and the way back failed:", *(f.message for f in failures)])
            return RunResult("failed", reason, failures[0].remedy or error.remedy)
        return RunResult("rolled-back", error.message, error.remedy)

    def _undo(self, done: _Done) -> UpgraderError | None:
        name, began = done.step.step.name, self._clock.monotonic()
        self._reporter.emit(UndoStarted(name, str(done.way_back)))
        failure: UpgraderError | None = None
        try:
            self._await_api()
            done.step.step.undo(done.way_back, self._note)
            hold_all(name, done.step.undo_gates, clock=self._clock, reporter=self._reporter)
        except UpgraderError as error:
            failure = error
        spent = self._clock.monotonic() - began
        self._reporter.emit(UndoEnded(name, failure is None, spent, failure.message if failure else ""))
        return failure

    def _await_api(self) -> None:
        """Helm's way back needs the API: wait for it to answer, for as long as a reboot may take."""
        if _not_ready(self._kube):
            self._note("the API server does not answer: waiting for it to come back before going on")
        why = wait_until(self._clock, lambda: _not_ready(self._kube), seconds=API_RETURNS_SECONDS)
        if why:
            raise RollbackFailed(
                f"the API server has not been ready for {API_RETURNS_SECONDS:.0f} s: {why}",
                remedy="Look at the controllers (kubelet, etcd, the kube-apiserver container's log), bring the "
                "API back, then run again.",
            )

    def _note(self, text: str) -> None:
        self._reporter.emit(Note(text))


def _not_ready(kube: Kube) -> str:
    """Why the API server isn't ready to serve; "" when it is."""
    try:
        kube.raw("/readyz")
    except ApiError as error:
        return error.message or "it gave no reason"
    return ""
