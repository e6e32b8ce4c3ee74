"""The shape of an upgrade: steps in order, each with a restore point, each followed by gates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from upgrader.model.gate_settings import GatePolicy
from upgrader.model.outcome import Verdict
from upgrader.model.release import RestorePoint

__all__ = ["IDEMPOTENT", "Beside", "Gate", "GateRun", "Inspection", "Pipeline", "PipelineStep", "Step", "StepInspector"]


class Gate(Protocol):
    """A question about the cluster's health. It never sleeps.

    It only reads, but for objects of its own that prove that writing works.
    """

    @property
    def name(self) -> str:
        """Short and unique within its step, such as `daemonset/kube-proxy`."""
        ...

    def check(self) -> Verdict:
        """Check once. An API that doesn't answer is `unknown`, not an exception."""
        ...


class Step(Protocol):
    """One change to the cluster that can be undone."""

    @property
    def name(self) -> str:
        """Unique within the pipeline, such as `kube-apiserver`."""
        ...

    def summary(self) -> str:
        """One line that says what `apply` would change, such as `v1.36.3 → v1.37.1`."""
        ...

    def capture(self) -> RestorePoint | None:
        """What `undo` restores; None when the step changes nothing that needs undoing. Reads only.

        Raises Blocked when there is no safe restore point, and HostSilent for a host that the runner then waits for.
        """
        ...

    def apply(self, note: Callable[[str], None]) -> int | None:
        """Make the change and wait for it; returns the revision that it wrote, if it is a release's.

        `note` takes lines of progress. Raises StepFailed with the true cause.
        """
        ...

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Restore `point`, whatever state the step is in. Idempotent. Raises UpgraderError."""
        ...


@dataclass(frozen=True)
class GateRun:
    """A gate, and when it passes or fails."""

    gate: Gate
    policy: GatePolicy
    again: Callable[[], Gate] | None = None
    """Makes the gate for each wait, where it remembers earlier checks."""
    asks_nothing: bool = False
    """Whether its check takes no time: it reads what this process knows already."""


@dataclass(frozen=True)
class Inspection:
    """The state of an interrupted step: whether its change is in place, and what was found."""

    applied: bool
    found: str
    revision: int = 0
    """The release's revision that the change is in; 0: none."""


class StepInspector(Protocol):
    """Inspects a step whose process was interrupted. `point` is the restore point that it had captured."""

    def await_idle(self, point: RestorePoint | None, note: Callable[[str], None]) -> None:
        """Wait until nothing works on the step any more, and free what is stuck.

        Raises UpgraderError when that fails.
        """
        ...

    def inspect(self, point: RestorePoint | None) -> Inspection:
        """Whether the change is in place; reads only. Raises ChangedMeanwhile when it was changed outside the run, and
        HostSilent for a host that the runner then waits for.
        """
        ...


class Beside(Protocol):
    """Work that a step leaves to be done beside the next ones, and without which a later step must not begin.

    It may be done before that step, and is completed then in any case, in whichever process the run was begun.
    """

    @property
    def needed_by(self) -> str:
        """The name of the step that begins only once all of it is done."""
        ...

    def complete(self, note: Callable[[str], None], check: Callable[[], None]) -> None:
        """Wait for what is being done, do the rest, and prove that all is done. Raises UpgraderError.

        `check` is called each second, and ends it by raising Interrupted.
        """
        ...

    def end_if(self, stopped: Callable[[], bool]) -> None:
        """Begin no more of it once `stopped` tells, to whichever thread asks, that the run won't begin that step: the
        run may take minutes until it ends, and another process may have its lock by then.
        """
        ...

    def end(self, *, wait: bool) -> None:
        """Begin no more of it. `wait` for what was begun, for some seconds."""
        ...


class _Idempotent:
    """For a step that can be repeated from any state, and whose work ends with its process."""

    def await_idle(self, point: RestorePoint | None, note: Callable[[str], None]) -> None:
        """Nothing to wait for."""

    def inspect(self, point: RestorePoint | None) -> Inspection:
        return Inspection(False, "it can be repeated from any state")


IDEMPOTENT: StepInspector = _Idempotent()


@dataclass(frozen=True)
class PipelineStep:
    """A step, with the gates that must pass after it, and those that must pass after its undo."""

    step: Step
    gates: tuple[GateRun, ...]
    undo_gates: tuple[GateRun, ...]
    inspector: StepInspector = IDEMPOTENT
    changes: bool = True
    """Whether `apply` changes anything; False for a step that only has its gates checked, or only prepares."""
    prepares: bool = False
    """Whether it only prepares what follows: where it fails, the cluster is as it was before it."""
    undo_needs_api: bool = True
    """Whether `undo` can begin only while the API answers; False for one that restores the API."""
    watched: Callable[[Callable[[], None]], Step] | None = None
    """Makes the same step with an extra check while it waits; the check ends the wait by raising StepFailed, or
    Interrupted.
    """
    undo_watched: Callable[[Callable[[], None]], Step] | None = None
    """Makes the same step with a check that is called while its undo waits."""
    approval_seconds: float | None = None
    """How long a person's approval is waited for before it begins; None: it needs none."""
    may_begin: Callable[[], None] | None = None
    """Raises UpgraderError where the step must not be begun any more."""
    confirm: Callable[[int], None] | None = None
    """Raises StepFailed where others have replaced the revision that the step wrote."""
    changes_logins: bool = True
    """Whether it may change whom kube-apiserver accepts, or the credentials of a client; False for one that changes
    nodes alone: a kubelet that can't log in leaves its node NotReady.
    """
    beside: Beside | None = None
    """What it leaves to be done beside the next steps."""
    groups: frozenset[str] = frozenset()
    """The groups of StatefulSets (`NAMESPACE/GROUP`) that guard may roll out while this step is active."""


@dataclass(frozen=True)
class Pipeline:
    """The steps in the order in which they are applied."""

    steps: tuple[PipelineStep, ...]

    @property
    def gates(self) -> tuple[GateRun, ...]:
        """The gates of all steps, each once."""
        return tuple({run.gate.name: run for item in self.steps for run in item.gates}.values())

    def each_if(self, may_begin: Callable[[], None]) -> Pipeline:
        """The same, in which no step is begun where `may_begin` raises UpgraderError."""
        return Pipeline(tuple(replace(item, may_begin=may_begin) for item in self.steps))
