"""What happens in a run, as values: the console, the journal and reports are all fed from these."""

from __future__ import annotations

from dataclasses import dataclass, field

from upgrader.model.availability import Latency, Phase, Watches
from upgrader.model.outcome import RunOutcome, StepResult, Verdict
from upgrader.model.release import RestorePoint
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import OnFailure
from upgrader.model.version import KubernetesVersion

__all__ = [
    "AvailabilityMeasured",
    "Event",
    "GateChecked",
    "GatePassed",
    "LockTakenOver",
    "Note",
    "RecoveryEnded",
    "RecoveryStarted",
    "RollbackRequested",
    "RunEnded",
    "RunResumed",
    "RunStarted",
    "StepApplied",
    "StepEnded",
    "StepInput",
    "StepInspected",
    "StepStarted",
    "UndoEnded",
    "UndoStarted",
]


@dataclass(frozen=True)
class StepInput:
    """What a step was made from: a digest of its chart and values, or of its playbook."""

    step: str
    digest: str


@dataclass(frozen=True)
class RunStarted:
    """A run begins; `steps` are the names in their order."""

    run: str
    kind: RunKind
    steps: tuple[str, ...]
    folder: str
    target: KubernetesVersion | None = None
    """The version to upgrade to; None for every other kind of run."""
    current: KubernetesVersion | None = None
    """The API server's version before the run; None for every other kind of run."""
    on_failure: OnFailure = "rollback-run"
    inputs: tuple[StepInput, ...] = ()


@dataclass(frozen=True)
class RunResumed:
    """Another process (`by`) resumes a run that was interrupted."""

    run: str
    by: str


@dataclass(frozen=True)
class RollbackRequested:
    """An operator (`by`) requested a rollback of all steps after the step `to`; "" means of the whole run."""

    run: str
    by: str
    to: str = ""


@dataclass(frozen=True)
class StepStarted:
    """A step begins; its restore point is captured."""

    step: str
    summary: str
    restore_point: RestorePoint | None
    """None: there is nothing to undo."""


@dataclass(frozen=True)
class StepInspected:
    """A step that was interrupted was inspected: whether its change is in, and what was found."""

    step: str
    applied: bool
    found: str


@dataclass(frozen=True)
class StepApplied:
    """The change is in; the gates come next."""

    step: str
    seconds: float


@dataclass(frozen=True)
class GateChecked:
    """A gate was checked once. `consecutive` of `needed` checks in a row have held."""

    step: str
    gate: str
    verdict: Verdict
    consecutive: int
    needed: int
    seconds_left: float


@dataclass(frozen=True)
class GatePassed:
    """A gate held for long enough."""

    step: str
    gate: str
    seconds: float
    checks: int


@dataclass(frozen=True)
class StepEnded:
    """A step is over; `reason` is empty when it passed."""

    step: str
    outcome: StepResult
    seconds: float
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class UndoStarted:
    """A step is being taken back; `goal` says to where."""

    step: str
    goal: str


@dataclass(frozen=True)
class UndoEnded:
    """A step was taken back, or could not be (`reason`)."""

    step: str
    succeeded: bool
    seconds: float
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class RecoveryStarted:
    """The API has been away for too long, and is now brought back over SSH; `reason` says how it was away."""

    reason: str


@dataclass(frozen=True)
class RecoveryEnded:
    """The API is back, or could not be brought back (`reason`)."""

    succeeded: bool
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class LockTakenOver:
    """The cluster's lock was somebody else's, who never gave it back; times are those of that machine's clock."""

    holder: str
    acquired: str
    renewed: str
    why: str


@dataclass(frozen=True)
class Note:
    """Something worth knowing that changes nothing."""

    text: str


@dataclass(frozen=True)
class AvailabilityMeasured:
    """What a client of the API saw so far. `raw_failed` counts first tries only; gaps are in milliseconds."""

    requests: int
    failed: int
    raw_failed: int
    longest_gap_ms: float
    failures: tuple[str, ...] = ()
    """The first failures, one line each: when, which request, what happened."""
    raw_failures: tuple[str, ...] = ()
    """The first of those whose first try failed and that were answered then, alike."""
    latency: Latency = field(default_factory=Latency)
    watches: Watches = field(default_factory=Watches)
    phases: tuple[Phase, ...] = ()
    """The same counts by step."""


@dataclass(frozen=True)
class RunEnded:
    """A run is over."""

    run: str
    outcome: RunOutcome
    seconds: float
    reason: str = ""


Event = (
    RunStarted
    | RunResumed
    | RollbackRequested
    | StepStarted
    | StepInspected
    | StepApplied
    | GateChecked
    | GatePassed
    | StepEnded
    | UndoStarted
    | UndoEnded
    | RecoveryStarted
    | RecoveryEnded
    | LockTakenOver
    | Note
    | AvailabilityMeasured
    | RunEnded
)
