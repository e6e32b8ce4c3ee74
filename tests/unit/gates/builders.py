"""Kubernetes objects as the API returns them, cut down to what gates read."""

from __future__ import annotations

from typing import Any

from testkit.fakes.kube import FakeKube
from upgrader.gates.kubernetes_kinds import CONTROLLER_REVISIONS, EVENTS, LEASES, NODES, PODS, REPLICA_SETS, WORKLOADS

__all__ = [
    "add_daemonset",
    "add_deployment",
    "add_down_node",
    "add_event",
    "add_node",
    "add_pod",
    "add_stateful_pod",
    "add_stateful_set",
    "container",
    "crashed",
    "running",
    "waiting",
]

NAMESPACE = "kube-system"
LONG_AGO = "2025-12-01T00:00:00Z"
_OF_SPEC = ("name", "image", "command", "resources")


def running(name: str = "main", *, ready: bool = True, since: str = LONG_AGO, **more: Any) -> dict[str, Any]:
    """A container that runs."""
    return container(name, {"running": {"startedAt": since}}, ready=ready, **more)


def waiting(reason: str, message: str = "", name: str = "main", **more: Any) -> dict[str, Any]:
    """A container that doesn't run, for this reason."""
    return container(name, {"waiting": {"reason": reason, "message": message}}, ready=False, **more)


def crashed(code: int = 1, *, restarts: int = 2, name: str = "main", **more: Any) -> dict[str, Any]:
    """A container in CrashLoopBackOff, whose last instance ended with `code`."""
    last = {"terminated": {"exitCode": code, "reason": "Error", **more}}
    return container(name, {"waiting": {"reason": "CrashLoopBackOff"}}, ready=False, restarts=restarts, last=last)


def container(
    name: str,
    state: dict[str, Any],
    *,
    ready: bool,
    restarts: int = 0,
    last: dict[str, Any] | None = None,
    image: str = "registry.k8s.io/main:v1",
    image_id: str | None = None,
    command: tuple[str, ...] = (),
    cpu_limit: str = "",
) -> dict[str, Any]:
    """One entry of `containerStatuses`, and of the spec, whose image is the same, and which has the command and the
    limit.
    """
    return {
        "name": name,
        "image": image,
        "imageID": f"{image.rpartition(':')[0]}@sha256:1" if image_id is None else image_id,
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
        "command": command,
        "resources": {"limits": {"cpu": cpu_limit}} if cpu_limit else {},
    }


def add_deployment(
    kube: FakeKube,
    name: str = "web",
    *,
    replicas: int = 1,
    generation: int = 1,
    observed: int | None = None,
    revision: int = 1,
    **counts: int,
) -> None:
    """A Deployment with its newest ReplicaSet (uid `NAME-rs-REVISION`); every count is `replicas` unless given."""
    status = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), replicas)
    kube.put(
        WORKLOADS["Deployment"],
        {
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"{name}-uid", "generation": generation},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}},
            "status": {**status, **counts, "observedGeneration": generation if observed is None else observed},
        },
    )
    kube.put(
        REPLICA_SETS,
        {
            "metadata": {
                "name": f"{name}-{revision}",
                "namespace": NAMESPACE,
                "uid": f"{name}-rs-{revision}",
                "labels": {"app": name},
                "annotations": {"deployment.kubernetes.io/revision": str(revision)},
                "ownerReferences": [{"uid": f"{name}-uid", "kind": "Deployment", "controller": True}],
            }
        },
    )


def add_daemonset(
    kube: FakeKube,
    name: str = "agent",
    *,
    desired: int = 1,
    generation: int = 1,
    revision: int = 1,
    template: int | None = None,
    namespace: str = NAMESPACE,
    strategy: str = "RollingUpdate",
    **counts: int,
) -> None:
    """A DaemonSet with its newest ControllerRevision (hash `hash-REVISION`); every count is `desired` unless given.

    `template`: the generation of its pod template.
    """
    annotations = {"deprecated.daemonset.template.generation": str(template)} if template else {}
    names = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "updatedNumberScheduled",
        "numberReady",
        "numberAvailable",
    )
    kube.put(
        WORKLOADS["DaemonSet"],
        {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"{name}-uid",
                "generation": generation,
                "annotations": annotations,
            },
            "spec": {"selector": {"matchLabels": {"app": name}}, "updateStrategy": {"type": strategy}},
            "status": {**dict.fromkeys(names, desired), "observedGeneration": generation, **counts},
        },
    )
    kube.put(
        CONTROLLER_REVISIONS,
        {
            "metadata": {
                "name": f"{name}-{revision}",
                "namespace": namespace,
                "labels": {"app": name, "controller-revision-hash": f"hash-{revision}"},
                "ownerReferences": [{"uid": f"{name}-uid", "kind": "DaemonSet", "controller": True}],
            },
            "revision": revision,
        },
    )


def add_pod(
    kube: FakeKube,
    owner: str,
    *containers: dict[str, Any],
    name: str = "",
    revision: int = 1,
    node: str = "controller-1",
    phase: str = "Running",
    init: tuple[dict[str, Any], ...] = (),
    daemon: bool = False,
    deleting: bool = False,
    unschedulable: str = "",
    awaits: str = "",
    priority_class: str = "",
    labels: dict[str, str] | None = None,
    message: str = "",
    host_ip: str = "",
    namespace: str = NAMESPACE,
) -> str:
    """A pod of a workload's revision; Ready when all its containers are. Returns its name.

    `awaits`: the scheduler that has not seen it.
    """
    name = name or f"{owner}-{revision}-{node}"
    statuses = list(containers) or [running()]
    ready = all(item["ready"] for item in statuses) and not unschedulable and not awaits
    of_revision = {"controller-revision-hash": f"hash-{revision}"} if daemon else {"pod-template-hash": f"{revision}"}
    meta: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": f"{name}-uid",
        "labels": labels or {"app": owner, **of_revision},
        "ownerReferences": [
            {
                "uid": f"{owner}-uid" if daemon else f"{owner}-rs-{revision}",
                "kind": "DaemonSet" if daemon else "ReplicaSet",
                "name": owner if daemon else f"{owner}-{revision}",
                "controller": True,
            }
        ],
    }
    if deleting:
        meta["deletionTimestamp"] = LONG_AGO
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    if unschedulable:
        conditions.append(
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": unschedulable}
        )
    kube.put(
        PODS,
        {
            "metadata": meta,
            "spec": {
                "nodeName": "" if unschedulable or awaits else node,
                "schedulerName": awaits,
                "priorityClassName": priority_class,
                "initContainers": [{"name": item["name"]} for item in init],
                "containers": [{key: item[key] for key in _OF_SPEC} for item in statuses],
            },
            "status": {
                "phase": phase,
                "message": message,
                "hostIP": host_ip,
                "conditions": conditions,
                "initContainerStatuses": list(init),
                "containerStatuses": sorted(statuses, key=lambda item: str(item["name"])),
            },
        },
    )
    return name


def add_stateful_set(
    kube: FakeKube,
    name: str = "db",
    *,
    replicas: int = 3,
    revision: str = "new",
    group: str = "",
    paused: bool = False,
    strategy: dict[str, Any] | None = None,
    generation: int = 1,
    observed: int | None = None,
    min_ready_seconds: int = 0,
    start: int = 0,
    **status: Any,
) -> None:
    """A StatefulSet of namespace `shop`, OnDelete unless said otherwise; its counts are `replicas` unless given."""
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), replicas)
    kube.put(
        WORKLOADS["StatefulSet"],
        {
            "metadata": {
                "name": name,
                "namespace": "shop",
                "uid": f"{name}-uid",
                "generation": generation,
                "labels": {"rollout-group": group} if group else {},
                "annotations": {"grafana.com/rollout-paused": "true"} if paused else {},
            },
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "db"}},
                "updateStrategy": strategy or {"type": "OnDelete"},
                "minReadySeconds": min_ready_seconds,
                "ordinals": {"start": start},
            },
            "status": {
                **counts,
                "updateRevision": revision,
                "observedGeneration": generation if observed is None else observed,
                **status,
            },
        },
    )


def add_stateful_pod(
    kube: FakeKube,
    ordinal: int,
    *containers: dict[str, Any],
    owner: str = "db",
    revision: str = "new",
    deleting: bool = False,
    phase: str = "Running",
    node: str = "worker-1",
) -> None:
    """A pod of a StatefulSet; Ready when all its containers are."""
    statuses = list(containers) or [running()]
    ready = all(item["ready"] for item in statuses)
    meta: dict[str, Any] = {
        "name": f"{owner}-{ordinal}",
        "namespace": "shop",
        "uid": f"{owner}-{ordinal}-uid",
        "labels": {"app": "db", "controller-revision-hash": revision},
        "ownerReferences": [{"uid": f"{owner}-uid", "kind": "StatefulSet", "name": owner, "controller": True}],
    }
    if deleting:
        meta["deletionTimestamp"] = LONG_AGO
    kube.put(
        PODS,
        {
            "metadata": meta,
            "spec": {"nodeName": node, "containers": [{"name": item["name"]} for item in statuses]},
            "status": {
                "phase": phase,
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
                "containerStatuses": statuses,
            },
        },
    )


def add_event(
    kube: FakeKube, uid: str, reason: str, message: str, *, at: str = LONG_AGO, since: str = "", field: str = ""
) -> None:
    """A Warning event about the object with this uid, seen at one time, or more often `since` an earlier one."""
    kube.put(
        EVENTS,
        {
            "metadata": {"name": f"{uid}.{reason}.{at}", "namespace": NAMESPACE},
            "involvedObject": {"uid": uid, "fieldPath": field},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "firstTimestamp": since or at,
            "lastTimestamp": at,
        },
    )


def add_node(
    kube: FakeKube,
    name: str,
    *,
    renewed: str = "2026-01-01T00:00:00.000000Z",
    cordoned: bool = False,
    conditions: dict[str, str] | None = None,
) -> None:
    """A node, Ready and without pressure unless said otherwise, and its heartbeat."""
    status = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", **(conditions or {})}
    listed = [{"type": kind, "status": value, "message": f"{kind} is {value}"} for kind, value in status.items()]
    kube.put(NODES, {"metadata": {"name": name}, "spec": {"unschedulable": cordoned}, "status": {"conditions": listed}})
    if renewed:
        lease = {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": {"renewTime": renewed}}
        kube.put(LEASES, lease)


def add_down_node(kube: FakeKube, name: str) -> None:
    """A node whose kubelet has been silent for so long that kube-controller-manager has tainted it."""
    add_node(kube, name, conditions={"Ready": "Unknown"})
    node = dict(kube.get(NODES, name) or {})
    kube.put(NODES, {**node, "spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}})
