"""The events of a campaign: the lines of its journal, whose format is that of a run's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from upgrader.model.version import KubernetesVersion

__all__ = [
    "EVENTS",
    "REQUESTS",
    "CampaignContinued",
    "CampaignEnded",
    "CampaignEvent",
    "CampaignStarted",
    "ChosenPod",
    "ClusterChecked",
    "ClusterEnded",
    "ClusterEvent",
    "ClusterInputs",
    "ClusterSkipped",
    "ClusterStarting",
    "ExecutorName",
    "InputsApproved",
    "JobsGone",
    "Outcome",
    "Paused",
    "Pins",
    "PodChosen",
    "PodRestarted",
    "Problem",
    "Request",
    "RequestsCounted",
    "RetryRequested",
    "SoakChecked",
    "SoakGateChecked",
    "StageApproved",
    "Unpaused",
]

ExecutorName = Literal["local", "jobs"]
"""Where runs are carried out: as processes of a machine, or as Jobs of a management cluster."""

Outcome = Literal["succeeded", "blocked", "rolled-back", "broken", "interrupted"]
"""How a cluster's run ended. `blocked`: nothing was changed, or of several minors, nothing after the last one that was
reached; `broken`: manual action is required, also after a rollback that has left something failing, or may have.
"""

Problem = Literal["", "unreachable", "identity", "changed", "journals", "unended", "rehearsal", "unknown", "silent"]
"""Why a cluster isn't begun: its API doesn't answer, or is another cluster's; its folder isn't as it was approved; it
answers, but keeps journals of earlier runs that aren't valid (`journals`); it has an upgrade without an end, which the
campaign has not begun (`unended`); its folder demands a rehearsal that was not made; or, of one that was begun, nothing
says whether it still runs, or how it ended (`unknown`), or it runs and has written nothing for a long time (`silent`).
"""


@dataclass(frozen=True)
class Pins:
    """What a campaign was begun with; a coordinator with anything else starts nothing."""

    upgrader: str
    """Its version."""
    charts: str
    """The digest of the built-in charts, which name their images."""
    program: str
    """The digest of its files: each run is a new process, which reads them as they are then."""


@dataclass(frozen=True)
class ClusterInputs:
    """The digest of a cluster folder's inputs."""

    cluster: str
    digest: str
    changes: str = ""
    """The `changes_digest` of the plan that was saved and approved; "": none was."""


@dataclass(frozen=True)
class CampaignStarted:
    """A campaign begins; `by` is the user and the machine."""

    campaign: str
    target: KubernetesVersion
    pins: Pins
    clusters: tuple[ClusterInputs, ...]
    by: str
    sequence: int = 0
    """Its place among the campaigns of its folder, given under the folder's lock; 0: an older version wrote it."""
    executor: ExecutorName = "local"
    hub: str = ""
    """The UID of the management cluster's namespace kube-system; "" without one."""
    plan: str = ""
    """The digest of the saved plan; "" without one."""


@dataclass(frozen=True)
class CampaignContinued:
    """Another coordinator goes on with it."""

    by: str
    hub: str = ""
    """As of `CampaignStarted`: where Jobs are from now on."""


@dataclass(frozen=True)
class ClusterChecked:
    """What was found before a cluster's run; written when that changes."""

    cluster: str
    problem: Problem
    reason: str = ""


@dataclass(frozen=True)
class ClusterStarting:
    """A cluster's run is about to begin, or to be resumed; `before` is the newest run that its folder has by then."""

    cluster: str
    attempt: int
    resume: bool = False
    before: str = ""


@dataclass(frozen=True)
class ClusterEnded:
    """An attempt at a cluster's run ended, after so many seconds."""

    cluster: str
    attempt: int
    outcome: Outcome
    seconds: float
    run: str = ""
    """The run's name; "" if none was begun."""
    cause: str = ""
    """Equal for clusters that failed in the same way; "" for a success."""
    reason: str = ""
    open: bool = False
    """Whether the run itself has no end, or none that is known: it is to be resumed. Only of `interrupted`."""


@dataclass(frozen=True)
class SoakChecked:
    """What a cluster answered at the end of its stage's soak; a failure is written when it changes."""

    cluster: str
    passed: bool
    reason: str = ""


@dataclass(frozen=True)
class RequestsCounted:
    """How many requests an API server of an upgraded cluster had answered by then: its soak needs others."""

    cluster: str
    server: str
    """When its process started, in seconds since 1970 by its own clock: no two of a cluster have the same."""
    requests: int
    servers: int
    """How many API servers the cluster has."""


@dataclass(frozen=True)
class SoakGateChecked:
    """What the gates of a soak say in an upgraded cluster; written when it changes which one doesn't pass."""

    cluster: str
    gate: str = ""
    """The first one that doesn't pass; "": all do."""
    reason: str = ""
    failed: bool = False
    """Whether it hasn't passed by its deadline, so that a person has to look."""
    unknown: bool = False
    """Whether none of them could be asked, so that it isn't known which ones pass."""


@dataclass(frozen=True)
class ChosenPod:
    """A pod of the control plane, in the namespace kube-system."""

    component: str
    """Its Deployment."""
    pod: str
    uid: str
    replicas: int = 0
    """How many pods that had then, all ready: so many are ready again only if one has started since."""


@dataclass(frozen=True)
class PodChosen:
    """A pod of an upgraded cluster is about to be evicted for its soak."""

    cluster: str
    chosen: ChosenPod


@dataclass(frozen=True)
class PodRestarted:
    """The pod that was chosen was replaced by one that is ready."""

    cluster: str


@dataclass(frozen=True)
class StageApproved:
    """A person approved a stage."""

    stage: str
    by: str
    reason: str
    request: str = ""


@dataclass(frozen=True)
class InputsApproved:
    """A person approved the changes of a cluster's folder."""

    cluster: str
    digest: str
    by: str
    reason: str
    request: str = ""


@dataclass(frozen=True)
class Paused:
    """A person stopped all starts."""

    by: str
    reason: str
    request: str = ""


@dataclass(frozen=True)
class Unpaused:
    """A person allowed starts again."""

    by: str
    request: str = ""


@dataclass(frozen=True)
class RetryRequested:
    """A person wants a cluster's run again."""

    cluster: str
    by: str
    request: str = ""


@dataclass(frozen=True)
class ClusterSkipped:
    """A cluster is left out until it is retried; `by` is "" where `onUnreachable` says so."""

    cluster: str
    by: str
    reason: str
    request: str = ""


@dataclass(frozen=True)
class JobsGone:
    """A person asserts that no Job of a management cluster runs any more, and none ever will: it is gone for good."""

    hub: str
    """As of `CampaignStarted`."""
    by: str
    reason: str
    request: str = ""


@dataclass(frozen=True)
class CampaignEnded:
    """Every cluster is done, and so is the last soak."""

    campaign: str


Request = StageApproved | InputsApproved | Paused | Unpaused | RetryRequested | ClusterSkipped | JobsGone
ClusterEvent = (
    ClusterChecked
    | ClusterStarting
    | ClusterEnded
    | SoakChecked
    | SoakGateChecked
    | PodChosen
    | PodRestarted
    | RequestsCounted
    | InputsApproved
    | RetryRequested
    | ClusterSkipped
)
"""Those of one cluster."""
CampaignEvent = CampaignStarted | CampaignContinued | ClusterEvent | Request | CampaignEnded
EVENTS: Mapping[str, type[CampaignEvent]] = {kind.__name__: kind for kind in get_args(CampaignEvent)}
"""Every type of event, by its name in the journal."""
REQUESTS: Mapping[str, type[Request]] = {kind.__name__: kind for kind in get_args(Request)}
"""Those that a person's command asks for."""
