"""The state of a run, as far as its journal goes.

`event_fold.py` makes it from events; the next action, the report, the display and `status` are all read from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from upgrader.engine.state.timeline import Span
from upgrader.model.baseline import Baseline
from upgrader.model.event import (
    AvailabilityMeasured,
    ChangedSeverity,
    GateChecked,
    SkippedCheck,
    StepApproved,
    StepInput,
    Warned,
)
from upgrader.model.health_before import HealthBefore
from upgrader.model.outcome import RunOutcome, StepPhase
from upgrader.model.release import RestorePoint
from upgrader.model.run_kind import RunKind, describe_run
from upgrader.model.settings import OnFailure
from upgrader.model.version import KubernetesVersion
from upgrader.model.webhook_ref import WebhookRef

__all__ = ["ACTIVE", "MAX_NOTES", "GateState", "RecoveryState", "RunState", "StepState", "TimedNote"]

MAX_NOTES = 500
"""How many notes a state keeps: the newest. The journal has all of them."""

ACTIVE: tuple[StepPhase, ...] = ("applying", "gating", "undoing")
"""The phases in which a step is worked on, or was when its run was interrupted."""


@dataclass(frozen=True)
class GateState:
    """A gate of a step: `passed`, or its last verdict and the reason."""

    name: str
    outcome: str
    seconds: float = 0.0
    """How long it took until it held."""
    reason: str = ""
    details: tuple[str, ...] = ()
    """The evidence of the last check: events, container states, log lines."""
    remedy: str = ""


@dataclass(frozen=True)
class TimedNote:
    """What an operator was told, and when."""

    time: datetime
    text: str


@dataclass(frozen=True)
class StepState:
    """A step that was begun. Durations are seconds."""

    name: str
    phase: StepPhase
    summary: str = ""
    restore_point: RestorePoint | None = None
    """None: there is nothing to undo."""
    revision: int = 0
    """The release's revision that its change is in; 0: none, or unknown."""
    reason: str = ""
    """Why it failed."""
    remedy: str = ""
    undo_reason: str = ""
    """Why it could not be undone; or, of one that was, what fails now that worked before the run."""
    undo_remedy: str = ""
    recorded: bool = True
    """Whether its beginning is in the journal; a step that failed before that can be begun again."""
    seconds: float = 0.0
    apply_seconds: float = 0.0
    undo_seconds: float = 0.0
    gates: tuple[GateState, ...] = ()
    check: GateChecked | None = None
    """The last check of a gate, while that gate is waited for."""
    goal: str = ""
    """What the undo restores, once it has begun."""
    since: datetime | None = None
    """When the current activity began."""
    note: str = ""
    """The last note while the step was active."""
    prepares: bool = False
    """Whether it only prepares what follows, and changes nothing itself."""
    clock_ahead: float | None = None
    """By how many seconds the clock was ahead of the API server's that tells when it began; None: unknown."""

    @property
    def active(self) -> bool:
        """Whether it is being worked on, or was when the run was interrupted."""
        return self.phase in ACTIVE

    @property
    def to_undo(self) -> bool:
        """Whether it has a change that was not undone yet."""
        return self.restore_point is not None and self.phase not in ("undone", "undo-failed")


@dataclass(frozen=True)
class RecoveryState:
    """One recovery of the API over SSH: succeeded, failed, or active (it has no recorded end)."""

    outcome: str
    started: datetime
    reason: str
    """Why it began: the API's last problem. For one that failed, why it did."""
    seconds: float = 0.0


@dataclass(frozen=True)
class RunState:
    """A whole run. Times are UTC, durations seconds."""

    run: str = ""
    kind: RunKind = RunKind.UPGRADE
    sequence: int = 0
    """Its place among the runs of its cluster, which no clock decides; 0: unknown."""
    target: KubernetesVersion | None = None
    current: KubernetesVersion | None = None
    """The API server's version before the run."""
    mixed: tuple[str, ...] = ()
    """The components that had another version than the API server before the run, as `kube-proxy v1.36.3`."""
    goal: KubernetesVersion | None = None
    """The version that it was on the way to: its target, or a later one."""
    emulated: str = ""
    """The older minor that the components emulate after the run, such as `1.36`; "": their own."""
    campaign: str = ""
    """The fleet's campaign that began it; "": none."""
    planned: tuple[str, ...] = ()
    """The names of all steps in their order, begun or not."""
    inputs: tuple[StepInput, ...] = ()
    health_before: HealthBefore | None = None
    """The rest of the cluster before the run; None where it was not read."""
    on_failure: OnFailure = "rollback-run"
    skipped: tuple[SkippedCheck, ...] = ()
    """What the operator overruled, in this run and in those that it was on the way to."""
    severities: tuple[ChangedSeverity, ...] = ()
    """What upgrader.yaml has count as more or less than its check does."""
    warnings: tuple[Warned, ...] = ()
    """What the checks warned of before it began."""
    baseline: Baseline | None = None
    """What worked before its first step; None where it was not read (yet)."""
    baseline_taken: datetime | None = None
    steps: tuple[StepState, ...] = ()
    """Those that were begun, in the order in which they were."""
    failure: StepState | None = None
    """The step that failed first, as it was then."""
    rollback_to: str | None = None
    """An operator requested a rollback to this step ("": of everything); None: none was requested."""
    outcome: RunOutcome | None = None
    """None: it is running, or was interrupted before it could record its end."""
    reason: str = ""
    """Why it ended as it did."""
    started: datetime | None = None
    active_since: datetime | None = None
    """When its current process began."""
    updated: datetime | None = None
    """When the last record was written."""
    seconds: float = 0.0
    """How long it took, in all processes that recorded their end."""
    doing: str = ""
    """What it was doing when the journal ends; "" when it has an end."""
    recoveries: tuple[RecoveryState, ...] = ()
    resumed_by: tuple[str, ...] = ()
    rollback_by: str = ""
    approvals: tuple[StepApproved, ...] = ()
    """Who approved of which step, in their order."""
    webhooks_off: tuple[WebhookRef, ...] = ()
    """Guard's webhooks that it may have switched off and not on again, in the order of switching."""
    lock_taken_from: str = ""
    """Who held the cluster's lock before this run took it over, and why it could."""
    availability: AvailabilityMeasured | None = None
    """As the newest process that measured it has recorded it; None where none has."""
    spans: tuple[Span, ...] = ()
    """Its activities, in the order in which they began."""
    notes: tuple[TimedNote, ...] = ()
    """The newest ones."""
    notes_left_out: int = 0
    """How many older ones there were."""
    unknown: tuple[str, ...] = ()
    """Types of records that this version of upgrader doesn't know: a newer one wrote them."""

    @property
    def is_upgrade(self) -> bool:
        """Whether it is an upgrade that was begun, which can be resumed and rolled back."""
        return bool(self.run) and self.kind is RunKind.UPGRADE

    @property
    def result(self) -> RunOutcome:
        """Its outcome; a journal without an end means interrupted."""
        return self.outcome or "interrupted"

    @property
    def over(self) -> bool:
        """Whether it reached an end after which nothing is left to do."""
        return self.outcome in ("succeeded", "rolled-back")

    @property
    def rolling_back(self) -> bool:
        """Whether it no longer goes forward: a step has failed, or a rollback was requested."""
        return self.rollback_to is not None or self.failure is not None

    @property
    def title(self) -> str:
        """`upgrade to v1.37.1`, or `rollback of the upgrade to v1.37.1` once an operator has requested that."""
        text = describe_run(self.kind, self.target, self.current)
        return f"rollback of the {text}" if self.rollback_to is not None else text

    @property
    def left_at(self) -> str:
        """What the cluster ran before the run: the API server's version, and the components that had another one."""
        others = f" with {', '.join(self.mixed)}" if self.mixed else ""
        return f"{self.current}{others}" if self.current else ""

    @property
    def left_failing(self) -> StepState | None:
        """The step that was undone last, if something that worked before the run failed behind that."""
        last = next((step for step in self.steps if step.phase == "undone"), None)
        return last if last is not None and last.undo_reason else None

    @property
    def rolled_back_as_requested(self) -> bool:
        """Whether it ended as an operator wanted, in the process of `rollback` or of a later `resume`."""
        return self.outcome == "rolled-back" and self.rollback_to is not None

    @property
    def untouched(self) -> bool:
        """Whether it failed before any step that changes something had begun."""
        return self.failure is not None and all(step.prepares for step in self.steps)

    @property
    def rollback_order(self) -> tuple[StepState, ...]:
        """The steps to roll back, in the order in which they are undone; undone ones too.

        After a failure, as the policy requires; on an operator's request, all after the step that they named.
        """
        if self.rollback_to is not None:
            names = [step.name for step in self.steps]
            kept = names.index(self.rollback_to) + 1 if self.rollback_to in names else 0
            return self.steps[kept:][::-1]
        if self.failure is None or self.on_failure == "stop":
            return ()
        if self.on_failure == "rollback-step":
            return tuple(step for step in self.steps if step.name == self.failure.name)
        return self.steps[::-1]

    @property
    def all_steps(self) -> tuple[StepState, ...]:
        """Every step, begun or not, in the planned order; then those that no plan names."""
        waiting = (self.step(name) or StepState(name, "waiting") for name in self.planned)
        return (*waiting, *(step for step in self.steps if step.name not in self.planned))

    def is_approved(self, name: str) -> bool:
        """Whether a person has approved of the step of that name."""
        return any(approval.step == name for approval in self.approvals)

    def step(self, name: str) -> StepState | None:
        """The step of that name; None when it was not begun."""
        return next((step for step in reversed(self.steps) if step.name == name), None)
