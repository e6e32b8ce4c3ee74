"""Reading the API's pods: whose they are, and whether they are Ready."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from upgrader.contract.checkpoints import ASKS, CHECKPOINT_OF, CONDITION
from upgrader.in_cluster.checkpointer.checkpointer_errors import Refused
from upgrader.onhost.node.workload_policy import Workload

Pod = Mapping[str, Any]

_TEMPLATE_HASH = "pod-template-hash"
_REVISION_HASH = "controller-revision-hash"
_NAME_ROOM = 58
"""Kubernetes cuts a generated name's prefix to this many characters."""
_LABEL_ROOM = 63
VOLUME_LAG = timedelta(minutes=2)
"""How long the kubelet may take to write a change into a running pod's volumes."""


def asks(pod: Pod) -> bool:
    """Whether this is a workload's own pod that asks for a checkpoint (mirror pods and our standby pods never do)."""
    meta = pod["metadata"]
    notes = meta.get("annotations") or {}
    return (
        notes.get(ASKS) == "true"
        and "kubernetes.io/config.mirror" not in notes
        and CHECKPOINT_OF not in (meta.get("labels") or {})
    )


def workload_of(pod: Pod) -> Workload:
    """The Deployment, DaemonSet or StatefulSet that owns the pod. Raises Refused for any other owner, or none."""
    meta = pod["metadata"]
    labels = meta.get("labels") or {}
    owner = next((o for o in meta.get("ownerReferences") or [] if o.get("controller")), None)
    if owner is None:
        raise Refused("NoOwner", f"pod {meta['name']} belongs to no Deployment, DaemonSet or StatefulSet")
    kind, name = owner["kind"], owner["name"]
    suffix = "-" + labels.get(_TEMPLATE_HASH, "")
    if kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
        kind, name = "Deployment", name.removesuffix(suffix)
    if kind not in ("Deployment", "DaemonSet", "StatefulSet"):
        raise Refused(
            "UnsupportedOwner",
            f"pod {meta['name']} belongs to {kind} {name}; only pods of a Deployment, DaemonSet or StatefulSet are "
            "checkpointed",
        )
    if len(name) > _LABEL_ROOM:
        raise Refused("NameTooLong", f"{kind} {name}: the name must fit a label, {_LABEL_ROOM} characters")
    return Workload(namespace=meta["namespace"], name=name)


def template_hash(pod: Pod) -> str:
    """The hash of the pod template that the pod was made from; empty if it carries none."""
    labels = pod["metadata"].get("labels") or {}
    found = labels.get(_TEMPLATE_HASH) or labels.get(_REVISION_HASH) or ""
    return str(found)


def belongs(workload: Workload, namespace: str, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a pod of which only name and labels are known (the container runtime's view) is this workload's own."""
    if namespace != workload.namespace or CHECKPOINT_OF in labels:
        return False
    if _TEMPLATE_HASH in labels:
        return name.startswith(f"{workload.name}-{labels[_TEMPLATE_HASH]}-"[:_NAME_ROOM])
    if _REVISION_HASH not in labels:
        return False
    of_stateful_set = re.fullmatch(re.escape(workload.name) + r"-\d+", name)
    of_daemon_set = re.fullmatch(re.escape(f"{workload.name}-"[:_NAME_ROOM]) + r"[a-z0-9]{5}", name)
    return bool(of_stateful_set or of_daemon_set)


def is_ready(pod: Pod) -> bool:
    """The pod's Ready condition; False where it is missing or unknown."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions") or [])


def is_terminating(pod: Pod) -> bool:
    """Whether the pod is being deleted."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def containers_of(pod: Pod) -> frozenset[str]:
    """IDs of the pod's containers as the kubelet reported them, as the container runtime calls them."""
    found = pod.get("status", {}).get("containerStatuses") or []
    return frozenset(c.get("containerID", "").rpartition("//")[2] for c in found)


def owner_kind(pod: Pod) -> str:
    """Kind of the workload that `workload_of` names."""
    kind = next((str(o["kind"]) for o in pod["metadata"].get("ownerReferences") or [] if o.get("controller")), "")
    return "Deployment" if kind == "ReplicaSet" else kind


def image_ids(pod: Pod) -> dict[str, str]:
    """Container name → the image that runs, by digest, for init containers too."""
    status = pod.get("status", {})
    every = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    return {c["name"]: c.get("imageID", "") for c in every}


def started(pod: Pod) -> datetime | None:
    """When the container that runs, or ran to its end, for longest was started; None while any hasn't been."""
    status = pod.get("status", {})
    times: list[datetime] = []
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        state = container.get("state") or {}
        text = (state.get("running") or state.get("terminated") or {}).get("startedAt")
        if not text:
            return None
        times.append(datetime.fromisoformat(text))
    return min(times, default=None)


def predates(changed: str, pod: Pod) -> bool:
    """Whether a Secret or ConfigMap that was last changed then is what all the pod's containers were started with.

    What is changed under a running pod reaches its files, not necessarily its process: such a pod proves nothing of it.
    By timestamps of two clocks; `provenance` knows better of what was seen to happen.
    """
    when, since = datetime.fromisoformat(changed), started(pod)
    if since is None:
        return False
    if when <= datetime.fromisoformat(pod["metadata"]["creationTimestamp"]):
        return True
    return when + VOLUME_LAG <= since


def condition(pod: Pod) -> tuple[str, str, str] | None:
    """Our own condition as (status, reason, message), or None."""
    for c in pod.get("status", {}).get("conditions") or []:
        if c["type"] == CONDITION:
            return c["status"], c.get("reason", ""), c.get("message", "")
    return None
