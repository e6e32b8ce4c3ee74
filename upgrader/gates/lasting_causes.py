"""What waiting won't change although a pod's containers run: it can't reach, read or serve what it needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from math import inf

from upgrader.contract.flags import is_true, last_values
from upgrader.errors import ApiError
from upgrader.gates.apiserver_instance import API_SERVER
from upgrader.model.components import API_SERVER_CPU
from upgrader.model.etcd_client import etcd_servers
from upgrader.model.log_lines import unreachable_backend
from upgrader.model.stored_resources import stored_resources
from upgrader.model.undecrypted import Undecrypted, undecrypted
from upgrader.model.workload import Container, Pod, parse_time
from upgrader.ports import Kind, Kube, KubeObject

__all__ = ["lasting_cause"]

_REFUSED = re.compile(r"kube-apiserver is not ready \(/readyz: L7STS (?P<status>401|403)\)")
"""How the readiness probe beside kube-apiserver tells of its own request (charts/kube-apiserver/files/proxy.sh)."""

_REFUSALS = {
    "401": ("Unauthorized", "kube-apiserver's authentication flags"),
    "403": ("Forbidden", "kube-apiserver's authorization flags"),
}
"""HTTP status → its name, and where its cause is."""

_REFUSED_SECONDS = 20
"""A kube-apiserver answers 403, too, from its start until it has read the roles: for a second, or some under load."""

_STARVED_SECONDS = 20.0
"""In which kube-apiserver can't get ready with less than `API_SERVER_CPU`, however idle the node is."""

_RELOAD = "encryption-provider-config-automatic-reload"
"""With it, kube-apiserver reads its keys again when it finds the file changed, for which it looks once a minute. While
new keys are being copied to the controllers, what it can't decrypt may pass: the pod's own deadline decides.
"""


def lasting_cause(
    kube: Kube,
    pod: Pod,
    log_of: Callable[[Container], tuple[str, ...]],
    events: Collection[KubeObject],
    others: Collection[Pod] = (),
) -> str:
    """Why a pod that isn't Ready won't be; "" if that isn't certain.

    Only of containers that never ran before, and so aren't waiting for a node to boot; and of each of them, as one that
    waits for another may be the first whose probe fails. `log_of` reads a container's log, `events` are the pod's, and
    `others` the workload's pods of older revisions.
    """
    begun = [item for item in pod.containers if not item.init and (item.running_since or item.terminated)]
    for item in begun:
        if item.restarts:
            continue
        log = log_of(item)
        failed = () if is_true(last_values(item.command).get(_RELOAD, "")) else undecrypted(log)
        lost_key = (str(each) for each in failed if _read(kube, each))
        found = unreachable_backend(log, etcd_servers(item.command)) or next(lost_key, "")
        if found:
            return f"{item.name}: {found}"
    return "" if any(item.restarts for item in begun) else _refused(events) or _starved(pod, events, others)


def _read(kube: Kube, found: Undecrypted) -> bool:
    """Whether the instances that serve can decrypt it: one that isn't Ready answers no client.

    An object that none can decrypt was like that before. kube-apiserver waits for its resource for a minute at most
    (--storage-initialization-timeout), unless it needs the resource itself. A request for one object reads etcd, and
    not the cache of an instance that had the key once.
    """
    group = found.resource.partition(".")[2]
    try:
        for item in stored_resources(kube.raw, (), only=group):
            if str(item) == found.resource:
                *_, namespace, name = found.key.split("/")
                kind = Kind(item.api_version, item.plural, item.namespaced)
                return kube.get(kind, name, namespace if item.namespaced else "") is not None
    except (ApiError, ValueError):
        pass  # not known whether they can: the pod's own deadline decides
    return False


def _refused(events: Collection[KubeObject]) -> str:
    """That it has refused its own readiness probe for long, by the kubelet's own clock; "" if it hasn't.

    Only if the newest result says so: an instance that got further has failed for another reason since.
    """
    newest = _newest_probe(events)
    match = _REFUSED.search(newest.get("message", "")) if newest else None
    if newest is None or match is None:
        return ""
    first, last = parse_time(newest.get("firstTimestamp")), parse_time(newest.get("lastTimestamp"))
    if first is None or last is None or (seconds := (last - first).total_seconds()) < _REFUSED_SECONDS:
        return ""
    kind, flags = _REFUSALS[match["status"]]
    return f"its readiness check has failed for {seconds:.0f} s: HTTP {match['status']} {kind} ({flags})"


def _newest_probe(events: Collection[KubeObject]) -> KubeObject | None:
    """The newest event of a probe that failed."""
    probed = [event for event in events if event.get("reason") == "Unhealthy" and event.get("lastTimestamp")]
    return max(probed, key=lambda each: str(each["lastTimestamp"]), default=None)


def _starved(pod: Pod, events: Collection[KubeObject], others: Collection[Pod]) -> str:
    """That a kube-apiserver has a CPU limit with which none works, and the one that it replaces has more; "" otherwise.

    A limit that was there before is no change. While the other one serves, a rollback is quick: once it has ended, each
    request of the rollback takes seconds.
    """
    item, newest = _api_server(pod), _newest_probe(events)
    before = [each for other in others if other.ready and not other.deleting and (each := _api_server(other))]
    most = max((each.cpu_limit for each in before), default=0.0)
    if item is None or newest is None or item.cpu_limit >= min(most, API_SERVER_CPU):
        return ""
    last = parse_time(newest["lastTimestamp"])
    if last is None or item.running_since is None:
        return ""
    seconds = (last - item.running_since).total_seconds()  # both times are of the node's clock
    if seconds < _STARVED_SECONDS:
        return ""
    had = "no CPU limit" if most == inf else f"a CPU limit of {_milli(most)}"
    return (
        f"{API_SERVER}: it is not ready {seconds:.0f} s after its start, with a CPU limit of {_milli(item.cpu_limit)} "
        f"(resources.limits.cpu): even without clients it needs {_milli(API_SERVER_CPU)}. The instance that it "
        f"replaces is ready, with {had}"
    )


def _api_server(pod: Pod) -> Container | None:
    return next((item for item in pod.containers if item.name == API_SERVER and not item.init), None)


def _milli(cpus: float) -> str:
    return f"{cpus * 1000:.0f}m"
