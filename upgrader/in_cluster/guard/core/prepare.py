"""Prepare-downscale: the pods that a downscale takes away are told before, or it is refused.

Zones shrink one after the other. When another zone was last downscaled stands on the group's Lease, which is also the
lock between downscales and rollouts; the annotation `last-downscale` is written afterwards. What that says, or what
rollout-operator has noted before, can refuse a downscale, and never allow one.

Pods are prepared, and kept in mind, by how many replicas a set has. So pods that another `spec.ordinals.start` takes
away are not prepared: that is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from upgrader.contract.times import timestamp
from upgrader.in_cluster.guard.core.admission import FORBIDDEN, AdmissionRequest, Answer, allow, deny
from upgrader.in_cluster.guard.core.delayed_downscale import MOST_PODS, Endpoint, endpoint
from upgrader.in_cluster.guard.core.downscale import Unreadable, both, moved, what
from upgrader.in_cluster.guard.core.rollout import GROUP_LABEL, Hold, pods_by_owner
from upgrader.in_cluster.guard.core.run_lease import refuse_downscale
from upgrader.in_cluster.guard.core.scaling import NotScaled, min_time
from upgrader.in_cluster.guard.core.workloads import Pod, StatefulSet, not_ready

__all__ = [
    "PREPARE",
    "GroupState",
    "Preparation",
    "concluded",
    "decide",
    "endpoints",
    "is_prepared",
    "refused",
    "shrinks",
]

PREPARE = "grafana.com/prepare-downscale"
PATH, PORT = "grafana.com/prepare-downscale-http-path", "grafana.com/prepare-downscale-http-port"


@dataclass(frozen=True)
class GroupState:
    """A group as it is: all its sets, their pods, and what its Lease tells.

    `locked_by`: the holder of the group's lock, other than this request; empty if there is none. `last_downscales`: by
    the set's name. `ever_ran`: no ordinal from this one on has ever had a running pod.
    """

    sets: tuple[StatefulSet, ...]
    pods: tuple[Pod, ...]
    last_downscales: Mapping[str, float]
    ever_ran: int
    locked_by: str = ""
    hold: Hold | None = None


@dataclass(frozen=True)
class Preparation:
    """The pods to be told by POST before the downscale is allowed: all must answer 2xx."""

    message: str
    endpoints: tuple[Endpoint, ...]


def shrinks(request: AdmissionRequest) -> tuple[int, int] | Answer:
    """From how many replicas to how many; or the answer, if no pod is lost."""
    try:
        before, after = both(request)
        if moved(request):
            return 1 if before is None else before, 1 if after is None else after
    except Unreadable as error:
        return allow(f"{request}: allowed, because {error}")
    if before is None or after is None:
        return allow() if before == after else allow(f"{request}: allowed, because replicas change from or to null")
    return allow() if after >= before else (before, after)


def decide(
    request: AdmissionRequest, which: StatefulSet, state: GroupState, cluster_domain: str, now: float
) -> Answer | Preparation:
    """The answer, or whom to prepare first. `which`: the set as it is, from the API; the request may be its Scale."""
    change = shrinks(request)
    if isinstance(change, Answer):
        return change
    before, after = change
    subject = f"{what(request)} is not allowed because "
    group = which.labels.get(GROUP_LABEL, "")
    if group and state.hold is not None and (held := refuse_downscale(request, group, state.hold)):
        return held
    if not is_prepared(which):
        return allow()
    if move := moved(request):
        why = f"it removes {move.pods(which.name)}, and guard prepares only the last pods of a set for shutdown"
        return deny(FORBIDDEN, f"{subject}{why}: change its replicas instead, or remove {PREPARE} first")
    # Any client can send a request with any number of replicas: it takes no more pods than the set wants.
    going = endpoints(which, min(before, which.replicas), after, cluster_domain)
    if isinstance(going, str):
        return deny(FORBIDDEN, f"{subject}{going}")
    if group and (why := _blocked(which, state, now)):
        return deny(FORBIDDEN, f"{subject}{why}")
    return _preparation(request, which, state, going, subject)


def endpoints(which: StatefulSet, before: int, after: int, cluster_domain: str) -> tuple[Endpoint, ...] | str:
    """The endpoints of the pods that are removed by this change; or why they aren't known."""
    path, port = which.annotations.get(PATH, ""), which.annotations.get(PORT, "")
    for name, value in (
        (f"annotation {PORT}", port),
        (f"annotation {PATH}", path),
        ("serviceName", which.service_name),
    ):
        if not value:
            return f"its {name} is not set or empty"
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        return f"its annotation {PORT} is {port[:64]!r}, not a port"
    url = urlsplit(f"http://pod:{port}/{path.lstrip('/')}")
    numbers = range(which.first_ordinal + after, which.first_ordinal + before)
    if (count := before - after) > MOST_PODS:
        return f"it has {count} pods to notify, more than {MOST_PODS}"
    return tuple(endpoint(which, number, url, cluster_domain) for number in numbers)


def refused(request: AdmissionRequest, why: str) -> Answer:
    """The refusal of a downscale, for a reason that isn't the group's state."""
    change = shrinks(request)
    return change if isinstance(change, Answer) else deny(FORBIDDEN, f"{what(request)} is not allowed because {why}")


def is_prepared(which: StatefulSet) -> bool:
    """Whether its pods are to be told before it gets fewer: by a label, or an annotation."""
    return "true" in (which.labels.get(PREPARE), which.annotations.get(PREPARE))


def concluded(preparation: Preparation, failures: Mapping[str, str]) -> Answer:
    """The answer when all have been told. `failures`: by pod, what went wrong; if any, all are to be told that they
    stay (DELETE)."""
    if not failures:
        return allow()
    pod, why = min(failures.items())
    more = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
    return deny(FORBIDDEN, f"{preparation.message}{pod}{more} could not be prepared for shutdown: {why}")


def _preparation(
    request: AdmissionRequest, which: StatefulSet, state: GroupState, going: Iterable[Endpoint], subject: str
) -> Answer | Preparation:
    running = {p.name: p for p in state.pods if p.owner_uid == which.uid and p.phase == "Running"}
    asked = []
    for each in going:
        if (there := running.get(each.pod)) and there.terminating:
            why = "is terminating, so it can't be prepared for shutdown, and another one may take its place"
            return deny(FORBIDDEN, f"{subject}{each.pod} {why}")
        if there:
            asked.append(each)
        elif each.ordinal < state.ever_ran:
            return deny(FORBIDDEN, f"{subject}{each.pod} isn't running, so it can't be prepared for shutdown")
    return allow() if request.dry_run or not asked else Preparation(subject, tuple(asked))


def _blocked(which: StatefulSet, state: GroupState, now: float) -> str:
    """Why no set of the group may shrink now but the one that did last; empty if it may."""
    if state.locked_by:
        return f"its group is locked: {state.locked_by}"
    own = pods_by_owner(state.sets, state.pods)
    for other in sorted(state.sets, key=lambda s: s.name):
        if other.uid == which.uid:
            continue
        try:
            least = max((t for t in (min_time(which), min_time(other)) if t is not None), default=0.0)
        except NotScaled as error:
            return str(error)
        last = state.last_downscales.get(other.name)
        if last is not None and now - last < least:
            return f"{other.name} was downscaled at {timestamp(last)}, less than {least:.0f} s ago"
        stale = sum(p.revision != other.update_revision for p in own[other.uid])
        if not other.observed or stale:
            return f"{other.name} has {stale} outdated pods"
        if lacking := not_ready(other, own[other.uid]):
            return f"{other.name} has {lacking} pods that aren't ready"
        if surplus := len(own[other.uid]) - other.replicas:
            return f"{other.name} has {surplus} pods that are still being removed"
    return ""
