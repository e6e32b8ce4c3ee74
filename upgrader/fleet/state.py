"""The state of a campaign, as far as its journal goes: folded from events, as a run's is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from upgrader.fleet.events import (
    CampaignContinued,
    CampaignEnded,
    CampaignEvent,
    CampaignStarted,
    ChosenPod,
    ClusterChecked,
    ClusterEnded,
    ClusterEvent,
    ClusterSkipped,
    ClusterStarting,
    ExecutorName,
    InputsApproved,
    JobsGone,
    Outcome,
    Paused,
    Pins,
    PodChosen,
    PodRestarted,
    Problem,
    RequestsCounted,
    RetryRequested,
    SoakChecked,
    SoakGateChecked,
    StageApproved,
    Unpaused,
)
from upgrader.model.version import KubernetesVersion

__all__ = ["RETRIES", "CampaignState", "ClusterState", "Phase", "clocks_disagree", "fold"]

_CLOCK_SECONDS = 300.0
"""More than the clocks of two machines that are kept in time differ by."""

RETRIES = 3
"""How often an interrupted run is begun again by itself."""

Phase = Literal["waiting", "running", "skipped"] | Outcome


@dataclass(frozen=True)
class ClusterState:
    """What the campaign knows of a cluster. Times are UTC."""

    name: str
    phase: Phase = "waiting"
    since: datetime | None = None
    """When this phase began; None: with the campaign."""
    attempt: int = 0
    """How many runs the campaign has begun or resumed."""
    interruptions: int = 0
    """How many attempts in succession were interrupted."""
    before: str = ""
    """The newest run of the cluster's folder before the last attempt."""
    run: str = ""
    """The last attempt's run; "" if it began none."""
    unended: bool = False
    """Whether a run was begun that has no end: the next attempt resumes it."""
    worked: float = 0.0
    """Seconds of all attempts at that run that have ended."""
    cause: str = ""
    reason: str = ""
    problem: Problem = ""
    problem_reason: str = ""
    problem_since: datetime | None = None
    problem_told: datetime | None = None
    """When its reason was written down."""
    digest: str = ""
    """Of the approved inputs."""
    changes: str = ""
    """The `changes_digest` of its approved plan, to which its first run must keep; "": any plan of these inputs, as a
    run that has begun changes what is left for the next one.
    """
    soaked: datetime | None = None
    """When it last passed the check at the end of a soak."""
    soak_reason: str = ""
    """Why it didn't pass."""
    soak_since: datetime | None = None
    """Since when it hasn't."""
    soak_told: datetime | None = None
    """When the reason was written down."""
    gate: str | None = None
    """Of the gates of its soak, the first one that didn't pass when they were asked last; "": all did; None: they
    weren't asked.
    """
    gate_reason: str = ""
    """Why it didn't pass, or none could be asked."""
    gate_since: datetime | None = None
    """Since when not all of them have passed."""
    gate_failed: bool = False
    """Whether a person has to look at it."""
    chosen: ChosenPod | None = None
    """The pod that is restarted in its soak."""
    pod_restarted: bool = False
    restart_since: datetime | None = None
    """When that pod was chosen, or, afterwards, when it was replaced."""
    counted: Mapping[str, int] = field(default_factory=dict)
    """API server, as in `RequestsCounted` → how many of its requests don't count for the soak."""
    servers: int = 1
    """How many API servers it has, as far as is known."""

    @property
    def active(self) -> bool:
        """Whether a run is in progress, or was interrupted and has no end, also if the cluster is left out since: it is
        neither at the old version nor at the new one.
        """
        return self.phase == "running" or self.unended

    @property
    def retried(self) -> bool:
        """Whether it was interrupted, and is begun again without a person."""
        return self.phase == "interrupted" and self.interruptions <= RETRIES

    @property
    def gate_shut(self) -> bool:
        """Whether a gate of its soak didn't pass, or none could be asked."""
        return self.gate_since is not None

    @property
    def may_be_skipped(self) -> bool:
        """Whether it may be left out: it isn't running, and if it has succeeded, its soak can't end."""
        if self.phase == "succeeded":
            return bool(self.soak_reason) or self.gate_shut
        return self.phase not in ("running", "skipped")

    @property
    def failed(self) -> bool:
        """Whether it needs a person."""
        return self.phase in ("blocked", "rolled-back", "broken") or (self.phase == "interrupted" and not self.retried)


@dataclass(frozen=True)
class CampaignState:
    """A campaign."""

    campaign: str = ""
    target: KubernetesVersion | None = None
    pins: Pins | None = None
    started: datetime | None = None
    ended: datetime | None = None
    paused: Paused | None = None
    approved: Mapping[str, StageApproved] = field(default_factory=dict)
    """By the stage's name."""
    clusters: Mapping[str, ClusterState] = field(default_factory=dict)
    """By the cluster's name."""
    seconds: tuple[float, ...] = ()
    """How long runs took that succeeded or were rolled back, all attempts of each together, oldest first."""
    requests: frozenset[str] = frozenset()
    """Those that were taken from their files."""
    executor: ExecutorName = "local"
    """As the campaign's first event has it."""
    hub: str = ""
    """The UID of the management cluster where its Jobs are; "" without one."""
    jobs_gone: bool = False
    """Whether a person has asserted that none of them runs: another management cluster may take its place."""
    latest: datetime | None = None
    """The latest time of any event."""
    plan: str = ""
    """The digest of the saved plan with which it was begun; "" without one."""

    @property
    def open(self) -> bool:
        """Whether it was begun and has no end."""
        return self.started is not None and self.ended is None


def fold(events: Iterable[tuple[datetime, CampaignEvent]], state: CampaignState = CampaignState()) -> CampaignState:
    """The state after these events, each with its time."""
    latest = state.latest
    for time, event in events:
        state = _after(state, time, event)
        latest = max(latest or time, time)
    return replace(state, latest=latest)


def clocks_disagree(state: CampaignState, now: datetime) -> str:
    """That the journal has a line of a time to come, so that no time can be judged; "" where it hasn't."""
    if state.latest is None or (state.latest - now).total_seconds() <= _CLOCK_SECONDS:
        return ""
    return (
        f"this machine's clock shows {now:%Y-%m-%d %H:%M}Z, but the campaign's journal has an entry of "
        f"{state.latest:%Y-%m-%d %H:%M}Z: correct the clock. If it was wrong when that entry was written: "
        "upgrader fleet run --new"
    )


def _after(state: CampaignState, time: datetime, event: CampaignEvent) -> CampaignState:
    request = getattr(event, "request", "")
    if request:
        state = replace(state, requests=state.requests | {request})
    match event:
        case CampaignStarted():
            clusters = {
                each.cluster: ClusterState(each.cluster, digest=each.digest, changes=each.changes)
                for each in event.clusters
            }
            return CampaignState(
                event.campaign,
                event.target,
                event.pins,
                time,
                clusters=clusters,
                executor=event.executor,
                hub=event.hub,
                plan=event.plan,
            )
        case CampaignContinued():
            return replace(state, hub=event.hub, jobs_gone=False) if event.hub else state
        case JobsGone():
            return replace(state, jobs_gone=state.jobs_gone or event.hub == state.hub)
        case CampaignEnded():
            return replace(state, ended=time)
        case Paused():
            reasoned = state.paused if state.paused and state.paused.reason and not event.reason else event
            return replace(state, paused=reasoned)  # a second pause without a reason doesn't hide the first one's
        case Unpaused():
            return replace(state, paused=None)
        case StageApproved():
            return replace(state, approved={**state.approved, event.stage: event})
    known = state.clusters.get(event.cluster)
    if known is None:
        return state
    if isinstance(event, ClusterEnded) and event.outcome in ("succeeded", "rolled-back") and known.phase == "running":
        state = replace(state, seconds=(*state.seconds, known.worked + event.seconds))
    cluster = _cluster_after(known, time, event)
    if isinstance(event, RetryRequested) and cluster != known:
        state = replace(state, ended=None)
    return replace(state, clusters={**state.clusters, event.cluster: cluster})


def _cluster_after(cluster: ClusterState, time: datetime, event: ClusterEvent) -> ClusterState:
    match event:
        case ClusterChecked():
            began = cluster.problem_since if event.problem == cluster.problem else time
            since = began if event.problem else None
            found = replace(cluster, problem=event.problem, problem_reason=event.reason, problem_since=since)
            return replace(found, problem_told=time if event.problem else None)
        case ClusterStarting():
            begun = replace(cluster, phase="running", since=time, attempt=event.attempt, before=event.before)
            if not event.resume:
                begun = replace(begun, run="", unended=False, worked=0.0)
            begun = replace(begun, soaked=None, soak_reason="", soak_since=None, counted={}, servers=1)
            return replace(_unasked(begun), chosen=None, pod_restarted=False)
        case ClusterEnded() if cluster.phase == "skipped":
            return replace(cluster, run=event.run, unended=event.open)  # a person has ended it
        case ClusterEnded():
            interruptions = cluster.interruptions + 1 if event.outcome == "interrupted" else 0
            return replace(
                cluster,
                phase=event.outcome,
                since=time,
                interruptions=interruptions,
                run=event.run,
                changes="" if event.run else cluster.changes,
                unended=event.open,
                worked=cluster.worked + event.seconds if event.open else 0.0,
                cause=event.cause,
                reason=event.reason,
            )
        case SoakChecked():
            since = None if event.passed else cluster.soak_since or time
            soaked = time if event.passed else cluster.soaked
            told = None if event.passed else time
            return replace(cluster, soaked=soaked, soak_reason=event.reason, soak_since=since, soak_told=told)
        case PodChosen():
            return replace(cluster, chosen=event.chosen, restart_since=time, soak_reason="", soak_since=None)
        case PodRestarted():
            return replace(cluster, pod_restarted=True, restart_since=time, soak_reason="", soak_since=None)
        case SoakGateChecked():
            since = (cluster.gate_since or time) if event.gate or event.unknown else None
            gate = None if event.unknown else event.gate
            return replace(cluster, gate=gate, gate_reason=event.reason, gate_since=since, gate_failed=event.failed)
        case RequestsCounted():
            counted = {**cluster.counted, event.server: event.requests}
            return replace(cluster, counted=counted, servers=event.servers)
        case InputsApproved():
            changed = cluster.problem == "changed"
            cleared = replace(cluster, problem="", problem_reason="", problem_since=None) if changed else cluster
            return replace(cleared, digest=event.digest, changes="")
        case RetryRequested() if cluster.phase == "succeeded" and cluster.gate_failed:
            return _unasked(cluster)
        case RetryRequested() if cluster.phase not in ("running", "succeeded"):
            again = replace(cluster, interruptions=0, problem="", problem_reason="", problem_since=None)
            if cluster.phase == "waiting":
                return again
            if cluster.unended:
                return replace(again, phase="interrupted", since=time)
            return replace(again, phase="waiting", since=time, cause="", reason="")
        case ClusterSkipped() if cluster.may_be_skipped:
            return replace(cluster, phase="skipped", since=time, reason=event.reason)
        case _:  # a request that came too late: the run it is about has begun, or has succeeded
            return cluster


def _unasked(cluster: ClusterState) -> ClusterState:
    return replace(cluster, gate=None, gate_reason="", gate_since=None, gate_failed=False)
