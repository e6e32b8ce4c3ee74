"""Steps, gates and listeners that a test can script."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from testkit.fakes.recovery import FakeRecovery
from upgrader.engine.execution.runner import Runner, RunResult
from upgrader.engine.execution.stop_request import StopRequest
from upgrader.errors import UpgraderError
from upgrader.gates.continuity.continuity import Continuity
from upgrader.gates.kubernetes_kinds import SECRETS
from upgrader.model.event import Event, RunStarted
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.outcome import Verdict, holds
from upgrader.model.release import RestorePoint
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import OnFailure
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import GateRun, Pipeline, PipelineStep

TARGET = KubernetesVersion(1, 37, 1)


class Recorder:
    """A Reporter that remembers."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


@dataclass
class ScriptedStep:
    """A step that records its calls in a shared diary."""

    name: str
    diary: list[str]
    apply_error: UpgraderError | None = None
    undo_error: UpgraderError | None = None
    on_apply: Callable[[], None] = lambda: None
    on_undo: Callable[[], None] = lambda: None

    def summary(self) -> str:
        return "change"

    def capture(self) -> RestorePoint:
        return RestorePoint(self.name, "kube-system", 1)

    def apply(self, note: Callable[[str], None]) -> None:
        self.diary.append(f"apply {self.name}")
        self.on_apply()
        if self.apply_error:
            raise self.apply_error

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        self.diary.append(f"undo {self.name} to {point.revision}")
        self.on_undo()
        if self.undo_error:
            raise self.undo_error


@dataclass
class ScriptedGate:
    """A gate that gives these verdicts, the last one for ever."""

    name: str
    verdicts: Iterator[Verdict] = field(default_factory=lambda: iter(()))
    last: Verdict = field(default_factory=lambda: holds("fine"))

    def check(self) -> Verdict:
        self.last = next(self.verdicts, self.last)
        return self.last


@dataclass
class Bench:
    """A runner on fakes, with everything that it reported."""

    clock: FakeClock
    kube: FakeKube
    recorder: Recorder
    stop: StopRequest
    diary: list[str]
    recovery: FakeRecovery

    def step(
        self, name: str, *gates: ScriptedGate, undo_gates: tuple[ScriptedGate, ...] = (), **script: object
    ) -> PipelineStep:
        """A pipeline step whose gates need three checks within ten seconds."""
        step = ScriptedStep(name, self.diary, **script)  # type: ignore[arg-type]
        return PipelineStep(step, tuple(map(_run, gates)), tuple(map(_run, undo_gates)))

    def runner(
        self,
        *,
        patience_seconds: float = 60.0,
        continuity: Continuity | None = None,
        folder: Path | None = None,
        confirm_lock: Callable[[], None] = lambda: None,
        asked: Callable[[], int] = lambda: 0,
    ) -> Runner:
        """A runner with the given patience, what its steps are compared with, and the run's folder."""
        return Runner(
            kube=self.kube,
            clock=self.clock,
            reporter=self.recorder,
            stop=self.stop,
            recovery=self.recovery,
            patience_seconds=patience_seconds,
            continuity=continuity,
            folder=folder,
            confirm_lock=confirm_lock,
            asked=asked,
        )


def _run(gate: ScriptedGate) -> GateRun:
    return GateRun(gate, GatePolicy(consecutive=3, interval_seconds=1.0, deadline_seconds=10.0))


def run(runner: Runner, *steps: PipelineStep, on_failure: OnFailure = "rollback-run") -> RunResult:
    """Run these steps as a pipeline."""
    names = tuple(item.step.name for item in steps)
    return runner.run(
        Pipeline(steps),
        RunStarted("r1", RunKind.UPGRADE, names, "/tmp/r1", TARGET, on_failure=on_failure),
    )


@pytest.fixture
def bench() -> Bench:
    """A fresh bench whose API answers."""
    kube = FakeKube()
    kube.raw_answers["/readyz"] = "ok"
    for release in "abc":
        labels = {"owner": "helm", "name": release}
        kube.put(SECRETS, {"metadata": {"name": f"sh.helm.release.v1.{release}.v1", "labels": labels}}, "kube-system")
    return Bench(FakeClock(), kube, Recorder(), StopRequest(), [], FakeRecovery(kube))
