"""The events of a run, from which the console, the journal and the reports are made."""

from __future__ import annotations

from dataclasses import dataclass, field

from upgrader.model.availability import Latency, Phase, Watches
from upgrader.model.baseline import Baseline
from upgrader.model.finding import Severity
from upgrader.model.health_before import HealthBefore
from upgrader.model.outcome import RunOutcome, StepResult, Verdict
from upgrader.model.release import RestorePoint
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import OnFailure
from upgrader.model.version import KubernetesVersion
from upgrader.model.webhook_ref import WebhookRef

__all__ = [
    "ApprovalRequested",
    "AvailabilityMeasured",
    "BaselineTaken",
    "ChangedSeverity",
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
    "SkippedCheck",
    "StepApplied",
    "StepApproved",
    "StepEnded",
    "StepInput",
    "StepInspected",
    "StepStarted",
    "UndoEnded",
    "UndoStarted",
    "Warned",
    "WebhookSwitched",
    "WebhookSwitching",
]


@dataclass(frozen=True)
class StepInput:
    """The input of a step: a digest of its chart and values, or of its playbook."""

    step: str
    digest: str


@dataclass(frozen=True)
class SkippedCheck:
    """What a check found, and why the operator started the run despite it."""

    id: str
    found: str
    reason: str


@dataclass(frozen=True)
class ChangedSeverity:
    """What a check found, with another severity in upgrader.yaml than the check's own (`was`)."""

    id: str
    found: str
    was: Severity
    now: Severity


@dataclass(frozen=True)
class Warned:
    """A warning of a check, which does not block the run."""

    id: str
    found: str
    diagnosis: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class RunStarted:
    """A run begins; `steps` are the names in their order."""

    run: str
    kind: RunKind
    steps: tuple[str, ...]
    folder: str
    target: KubernetesVersion | None = None
    """The version that an upgrade or a finalize leads to; None for every other kind of run."""
    current: KubernetesVersion | None = None
    """The API server's version before the run; None for every other kind of run."""
    on_failure: OnFailure = "rollback-run"
    inputs: tuple[StepInput, ...] = ()
    sequence: int = 0
    """Its place among the runs of its cluster, given under the lock; 0: unknown."""
    health_before: HealthBefore | None = None
    """The health of the rest of the cluster before the run; None if it was not read."""
    skipped: tuple[SkippedCheck, ...] = ()
    severities: tuple[ChangedSeverity, ...] = ()
    goal: KubernetesVersion | None = None
    """The final version of an upgrade over several minors, which may be after `target`; None: unknown."""
    emulated: str = ""
    """The older minor that the components emulate after the run, such as `1.36`; "": none."""
    warnings: tuple[Warned, ...] = ()
    """The first few warnings of the checks."""
    mixed: tuple[str, ...] = ()
    """The components that have another version than the API server before the run, as `kube-proxy v1.36.3`."""
    campaign: str = ""
    """The fleet's campaign that began it; "": none."""


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
class BaselineTaken:
    """What worked before the first step; each step's gates compare with it."""

    baseline: Baseline


@dataclass(frozen=True)
class ApprovalRequested:
    """A step waits for a person's approval before it begins, for at most so many seconds."""

    step: str
    seconds: float


@dataclass(frozen=True)
class StepApproved:
    """A person (`by`) approved a step, and said why. The name is the one that they gave."""

    step: str
    by: str
    reason: str


@dataclass(frozen=True)
class StepStarted:
    """A step begins; its restore point is captured."""

    step: str
    summary: str
    restore_point: RestorePoint | None
    """None: there is nothing to undo."""
    prepares: bool = False
    """Whether it only prepares what follows: if it fails, the cluster is as it was before it."""
    clock_ahead: float | None = None
    """By how many seconds the clock of this record's time was ahead of the API server's, to two seconds; None: unknown,
    or of no use for the step's undo.
    """


@dataclass(frozen=True)
class StepInspected:
    """An interrupted step was inspected: whether its change is in place, and what was found."""

    step: str
    applied: bool
    found: str
    revision: int = 0
    """The revision of the release that has the change; 0: none, or unknown."""


@dataclass(frozen=True)
class StepApplied:
    """The change is in place; its gates are checked next."""

    step: str
    seconds: float
    revision: int = 0
    """The revision of the release that it wrote; 0: none, or unknown."""


@dataclass(frozen=True)
class GateChecked:
    """A gate was checked once. So far, `consecutive` of the `needed` checks in a row have succeeded."""

    step: str
    gate: str
    verdict: Verdict
    consecutive: int
    needed: int
    seconds_left: float


@dataclass(frozen=True)
class GatePassed:
    """A gate passed: enough checks in a row have succeeded."""

    step: str
    gate: str
    seconds: float
    checks: int


@dataclass(frozen=True)
class StepEnded:
    """A step ended; `reason` is empty when it passed."""

    step: str
    outcome: StepResult
    seconds: float
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class UndoStarted:
    """The rollback of a step begins; `goal` names what it restores."""

    step: str
    goal: str


@dataclass(frozen=True)
class UndoEnded:
    """A step was rolled back, or could not be; `reason`: why not, or what worked before the run and fails after the
    rollback.
    """

    step: str
    succeeded: bool
    seconds: float
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class RecoveryStarted:
    """The API was unreachable for too long and is now recovered over SSH; `reason` is its last problem."""

    reason: str


@dataclass(frozen=True)
class RecoveryEnded:
    """The API answers again, or could not be recovered (`reason`)."""

    succeeded: bool
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class WebhookSwitching:
    """A webhook of guard is about to be switched off (`off`), or on again. It is switched off because it can't be
    reached and refuses what the run needs (`reason`, in the API server's words).
    """

    which: WebhookRef
    off: bool
    reason: str = ""


@dataclass(frozen=True)
class WebhookSwitched:
    """The webhook was switched off or on again, or could not be (`reason`)."""

    which: WebhookRef
    off: bool
    succeeded: bool
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class LockTakenOver:
    """The cluster's lock was taken over from a holder that did not release it; times are by that machine's clock."""

    holder: str
    acquired: str
    renewed: str
    why: str


@dataclass(frozen=True)
class Note:
    """A message for the operator."""

    text: str


@dataclass(frozen=True)
class AvailabilityMeasured:
    """What a client of the API saw so far. `raw_failed` counts first attempts only; gaps are in milliseconds."""

    requests: int
    failed: int
    raw_failed: int
    longest_gap_ms: float
    failures: tuple[str, ...] = ()
    """The first failures, one line each: when, which request, what happened."""
    raw_failures: tuple[str, ...] = ()
    """The first requests that failed at the first attempt and succeeded later, in the same form."""
    latency: Latency = field(default_factory=Latency)
    watches: Watches = field(default_factory=Watches)
    phases: tuple[Phase, ...] = ()
    """The same counts by step."""


@dataclass(frozen=True)
class RunEnded:
    """A run ended."""

    run: str
    outcome: RunOutcome
    seconds: float
    reason: str = ""


Event = (
    RunStarted
    | RunResumed
    | RollbackRequested
    | BaselineTaken
    | ApprovalRequested
    | StepApproved
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
    | WebhookSwitching
    | WebhookSwitched
    | LockTakenOver
    | Note
    | AvailabilityMeasured
    | RunEnded
)
