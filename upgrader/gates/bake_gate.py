"""The gate of a bake: all gates of a step together, for a set time, instead of until each has held for a moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from upgrader.model.gate_settings import GatePolicy
from upgrader.model.outcome import Verdict, VerdictKind, broken, holds, pending
from upgrader.model.own_steps import BAKE
from upgrader.pipeline import Gate, GateRun, Pipeline, PipelineStep
from upgrader.ports import Clock

__all__ = ["BakeGate", "baked_together"]

"""The name of the step; no release can have it."""
_INTERVAL_SECONDS = 5.0


@dataclass
class _Watched:
    """A gate, and since when it has not held."""

    gate: Gate
    patience_seconds: float
    since: float | None = None


class BakeGate:
    """All gates of the run pass in every check. A gate that fails may recover within its own deadline."""

    name = "bake"

    def __init__(self, runs: Sequence[GateRun], clock: Clock, seconds: float) -> None:
        self._watched = [_Watched(run.again() if run.again else run.gate, run.policy.deadline_seconds) for run in runs]
        self._clock, self._seconds = clock, seconds
        self._began: float | None = None

    def check(self) -> Verdict:
        """The first gate that doesn't hold decides; it is broken for good once it took longer than its deadline."""
        self._began = self._clock.monotonic() if self._began is None else self._began
        problems = [verdict for verdict in map(self._check, self._watched) if verdict is not None]
        if problems:
            return next((each for each in problems if each.kind is VerdictKind.BROKEN), problems[0])
        spent = self._clock.monotonic() - self._began
        if spent < self._seconds:
            return pending(
                f"all {len(self._watched)} gates pass; {spent:.0f} of {self._seconds:.0f} s",
                remedy="Wait, or set a shorter `policy.bake` in upgrader.yaml.",
            )
        return holds(f"all {len(self._watched)} gates passed for {self._seconds:.0f} s")

    def _check(self, watched: _Watched) -> Verdict | None:
        verdict, now = watched.gate.check(), self._clock.monotonic()
        if verdict.kind is VerdictKind.HOLDS:
            watched.since = None
            return None
        watched.since = now if watched.since is None else watched.since
        if now - watched.since >= watched.patience_seconds:
            what = f"{watched.gate.name} has not passed for {now - watched.since:.0f} s: {verdict.reason}"
            return broken(what, *verdict.details, remedy=verdict.remedy)
        return replace(verdict, reason=f"{watched.gate.name}: {verdict.reason}")


def baked_together(pipeline: Pipeline, seconds: float, clock: Clock) -> Pipeline:
    """The pipeline, whose bake has one gate in place of all that it was given."""
    return Pipeline(tuple(_baked(item, seconds, clock) for item in pipeline.steps))


def _baked(item: PipelineStep, seconds: float, clock: Clock) -> PipelineStep:
    if item.step.name != BAKE:
        return item

    def gate() -> BakeGate:
        return BakeGate(item.gates, clock, seconds)

    longest = max((run.policy.deadline_seconds for run in item.gates), default=0.0)
    # Whatever doesn't hold at the end has its own deadline still.
    policy = GatePolicy(1, _INTERVAL_SECONDS, seconds + 2 * longest)
    return replace(item, gates=(GateRun(gate(), policy, gate),))
