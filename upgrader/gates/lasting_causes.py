"""What waiting won't change although a pod's containers run: it can't reach, read or serve what it needs."""

from __future__ import annotations

import re
from collections.abc import Collection

from upgrader.errors import ApiError
from upgrader.gates.pod_evidence import log_tail
from upgrader.model.log_lines import readable, undecrypted, unreachable_backend
from upgrader.model.workload import Container, Pod, parse_time
from upgrader.ports import Kube, KubeObject

__all__ = ["lasting_cause"]

_LOG_LINES = 300
"""A kube-apiserver without a key logs several lines for each try, about every second."""

_REFUSED = re.compile(r"kube-apiserver is not ready \(/readyz: L7STS (?P<status>401|403)\)")
"""How the readiness probe beside kube-apiserver tells of its own request (charts/kube-apiserver/files/proxy.sh)."""

_REFUSALS = {
    "401": ("Unauthorized", "kube-apiserver's authentication flags"),
    "403": ("Forbidden", "kube-apiserver's authorization flags"),
}
"""HTTP status → its name, and where its cause is."""

_REFUSED_SECONDS = 20
"""A kube-apiserver answers 403, too, from its start until it has read the roles: for a second, or some under load."""


def lasting_cause(kube: Kube, pod: Pod, beside: Collection[Pod], events: Collection[KubeObject]) -> str:
    """Why a pod that isn't Ready won't be; "" if that isn't certain.

    Only of containers that never ran before, and so aren't waiting for a node to boot; and of each of them, as one that
    waits for another may be the first whose probe fails. `beside` are the workload's other pods, `events` the pod's.
    """
    begun = [item for item in pod.containers if not item.init and (item.running_since or item.terminated)]
    for item in begun:
        if item.restarts:
            continue
        found = unreachable_backend(log_tail(kube, pod, item)) or _undecrypted(kube, pod, item, beside)
        if found:
            return f"{item.name}: {found}"
    return "" if any(item.restarts for item in begun) else _refused(events)


def _undecrypted(kube: Kube, pod: Pod, item: Container, beside: Collection[Pod]) -> str:
    """What it can't decrypt and a Ready pod beside it can: an object that none can read keeps none from being Ready."""
    log = log_tail(kube, pod, item, lines=_LOG_LINES)
    if not undecrypted(log):
        return ""
    others = [one for one in beside if one.ready and any(each.name == item.name for each in one.containers)]
    try:
        logs = [kube.logs(one.namespace, one.name, item.name, lines=_LOG_LINES) for one in others]
    except ApiError:
        return ""  # not known whether they can: the pod's own deadline decides
    return undecrypted(log, readable("\n".join(logs))) if logs else ""


def _refused(events: Collection[KubeObject]) -> str:
    """That it has refused its own readiness probe for long, by the kubelet's own clock; "" if it hasn't.

    Only if the newest result says so: an instance that got further has failed for another reason since.
    """
    probed = [event for event in events if event.get("reason") == "Unhealthy" and event.get("lastTimestamp")]
    newest = max(probed, key=lambda each: str(each["lastTimestamp"]), default=None)
    match = _REFUSED.search(newest.get("message", "")) if newest else None
    if newest is None or match is None:
        return ""
    first, last = parse_time(newest.get("firstTimestamp")), parse_time(newest.get("lastTimestamp"))
    if first is None or last is None or (seconds := (last - first).total_seconds()) < _REFUSED_SECONDS:
        return ""
    kind, flags = _REFUSALS[match["status"]]
    return f"it has refused its own readiness check for {seconds:.0f} s: HTTP {match['status']} {kind} ({flags})"
