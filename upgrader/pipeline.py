"""The shape of an upgrade: steps in order, each with a way back, each followed by gates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from upgrader.model.outcome import Verdict
from upgrader.model.release import RestorePoint
from upgrader.model.settings import GatePolicy

__all__ = ["AGAIN", "Doubt", "Found", "Gate", "GateRun", "Pipeline", "PipelineStep", "Step"]


class Gate(Protocol):
    """A question about the cluster's health. It only looks; it never changes anything, and never sleeps."""

    @property
    def name(self) -> str:
        """Short and unique within its step, such as `daemonset/kube-proxy`."""
        ...

    def look(self) -> Verdict:
        """Look once. An API that doesn't answer is `unknown`, not an exception."""
        ...


class Step(Protocol):
    """One change to the cluster, with a way back."""

    @property
    def name(self) -> str:
        """Unique within the pipeline, such as `kube-apiserver`."""
        ...

    def summary(self) -> str:
        """One line that says what `apply` would change, such as `v1.36.3 → v1.37.1`."""
        ...

    def capture(self) -> RestorePoint | None:
        """Where `undo` goes back to; None when the step changes nothing that would have to be taken back. Reads only.

        Raises Inhibited when there is no safe place to go back to.
        """
        ...

    def apply(self, note: Callable[[str], None]) -> None:
        """Make the change and wait for it; `note` takes lines of progress. Raises StepFailed with the true cause."""
        ...

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Go back to `point`, from whatever state the step was left in. Idempotent. Raises UpgraderError."""
        ...


@dataclass(frozen=True)
class GateRun:
    """A gate, and when it passes or fails."""

    gate: Gate
    policy: GatePolicy


@dataclass(frozen=True)
class Found:
    """What became of a step that was cut off: whether its change is in, and in words what was seen."""

    applied: bool
    words: str


class Doubt(Protocol):
    """How to learn what became of a step whose process ended in its middle. `point` is what it had captured."""

    def settle(self, point: RestorePoint | None, note: Callable[[str], None]) -> None:
        """Wait for what may still be at work on the step, and free what was left stuck; then nothing is under way.

        Raises UpgraderError when that can't be reached.
        """
        ...

    def look(self, point: RestorePoint | None) -> Found:
        """Whether the change is in; reads only. Raises ChangedMeanwhile when somebody else has changed it."""
        ...


class _Again:
    """For a step that can be repeated from whatever state it was left in, and whose work ends with its process."""

    def settle(self, point: RestorePoint | None, note: Callable[[str], None]) -> None:
        """Nobody is at work."""

    def look(self, point: RestorePoint | None) -> Found:
        return Found(False, "it can be repeated from any state")


AGAIN: Doubt = _Again()


@dataclass(frozen=True)
class PipelineStep:
    """A step, the gates that must hold after it, and those that must hold after it was undone."""

    step: Step
    gates: tuple[GateRun, ...]
    undo_gates: tuple[GateRun, ...]
    doubt: Doubt = AGAIN


@dataclass(frozen=True)
class Pipeline:
    """The steps in the order in which they are applied."""

    steps: tuple[PipelineStep, ...]
