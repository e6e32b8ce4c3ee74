"""Reads one workload with its pods, and separates those of its newest revision from older ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from upgrader.gates.kubernetes_kinds import CONTROLLER_REVISIONS, PODS, REPLICA_SETS, WORKLOADS
from upgrader.model.workload import Pod, Workload, WorkloadRef
from upgrader.ports import Kind, Kube, KubeObject

__all__ = ["Reading", "find_workload", "read_found", "read_workload", "related_pods"]

_SYSTEM = "kube-system"
_REVISION = "deployment.kubernetes.io/revision"
_HASH = "controller-revision-hash"
_TEMPLATE = "deprecated.daemonset.template.generation"
_OF_DEPLOYMENTS = "pod-template-hash"
"""A label of every pod that a Deployment's ReplicaSets own, by which these select them; no other pod has it."""
_OF_TEMPLATE = "pod-template-generation"
"""A DaemonSet's annotation and its pods' label: how often the API server has seen its pod template change."""


@dataclass(frozen=True)
class Reading:
    """A workload and its pods at one moment."""

    workload: Workload
    owner: str
    """The uid of the newest pods' owner: the newest ReplicaSet, or the workload itself; "" for none yet."""
    newest: tuple[Pod, ...]
    """Pods of the newest revision that are neither finished nor terminating; of a StatefulSet also those that may keep
    another one.
    """
    others: tuple[Pod, ...]
    """Its other unfinished pods: of old revisions, or terminating."""
    failed: tuple[Pod, ...] = ()
    """Pods of the newest revision that failed: evicted, or refused by their node."""


def find_workload(kube: Kube, ref: WorkloadRef) -> KubeObject | None:
    """Read a workload's object; None when it doesn't exist. Raises ApiUnavailable or ApiError.

    In kube-system from the list of all, which are few: several gates read them in each round, and ask for it once.
    """
    if ref.namespace != _SYSTEM:
        return kube.get(WORKLOADS[ref.kind], ref.name, ref.namespace)
    listed = kube.list(WORKLOADS[ref.kind], ref.namespace)
    return next((item for item in listed if item["metadata"]["name"] == ref.name), None)


def read_workload(kube: Kube, ref: WorkloadRef) -> Reading | None:
    """Read a workload; None when it doesn't exist. Raises ApiUnavailable or ApiError."""
    found = find_workload(kube, ref)
    return read_found(kube, Workload.parse(ref.kind, found), found) if found is not None else None


def read_found(kube: Kube, workload: Workload, found: KubeObject) -> Reading:
    """Read the pods of a workload, of which `found` is the object. Raises ApiUnavailable or ApiError."""
    template = ""
    if workload.ordered is not None:
        revision, owner, owners = workload.ordered.revision or "(none)", workload.uid, {workload.uid}
    elif workload.ref.kind == "Deployment":
        sets = _owned(_related(kube, REPLICA_SETS, workload), workload.uid)
        newest_set = max(sets, key=_revision_of_set, default=None)
        owner = newest_set["metadata"]["uid"] if newest_set else ""
        owners, revision = {item["metadata"]["uid"] for item in sets}, ""
    else:
        revisions = _owned(_related(kube, CONTROLLER_REVISIONS, workload), workload.uid)
        newest_revision = max(revisions, key=lambda item: int(item.get("revision", 0)), default=None)
        # Without one the controller hasn't started: no pod counts as new.
        revision = newest_revision["metadata"]["labels"][_HASH] if newest_revision else "(none)"
        owner, owners = workload.uid, {workload.uid}
        template = (found["metadata"].get("annotations") or {}).get(_TEMPLATE, "") if newest_revision else ""
    pods = [Pod.parse(item) for item in related_pods(kube, workload)]
    mine = [pod for pod in pods if pod.owner in owners and not pod.is_checkpoint]

    def is_newest(pod: Pod) -> bool:
        if pod.owner != owner or pod.deleting:
            return False
        # As the controller itself counts: another version of it may write the same template differently, into a
        # revision of another hash (v1.34 leaves out `creationTimestamp: null`), and replaces no pod for that.
        same = bool(template) and pod.labels.get(_OF_TEMPLATE) == template
        kept = workload.ordered is not None and workload.ordered.keeps(pod.name)
        return not revision or pod.labels.get(_HASH) == revision or same or kept

    return Reading(
        workload,
        owner,
        newest=tuple(pod for pod in mine if is_newest(pod) and not pod.finished),
        others=tuple(pod for pod in mine if not is_newest(pod) and not pod.finished),
        failed=tuple(pod for pod in mine if is_newest(pod) and pod.phase == "Failed"),
    )


def related_pods(kube: Kube, workload: Workload) -> tuple[KubeObject, ...]:
    """Pods among which are all of a workload's. Raises ApiUnavailable or ApiError.

    For kube-system's Deployments those of all of them, asked for once; but none of a DaemonSet, which may have one on
    each of thousands of nodes.
    """
    shared = workload.ref.namespace == _SYSTEM and workload.ref.kind == "Deployment"
    return kube.list(PODS, workload.ref.namespace, labels=_OF_DEPLOYMENTS if shared else workload.selector)


def _related(kube: Kube, kind: Kind, workload: Workload) -> tuple[KubeObject, ...]:
    """Its ReplicaSets or ControllerRevisions, in kube-system among those of all workloads."""
    namespace = workload.ref.namespace
    return kube.list(kind, namespace, labels="" if namespace == _SYSTEM else workload.selector)


def _owned(items: tuple[KubeObject, ...], uid: str) -> list[KubeObject]:
    def owners(item: KubeObject) -> list[Mapping[str, Any]]:
        return item["metadata"].get("ownerReferences") or []

    return [item for item in items if any(owner.get("uid") == uid for owner in owners(item))]


def _revision_of_set(item: KubeObject) -> int:
    """The Deployment controller counts up; a ReplicaSet that a rollback revives gets a new number."""
    return int((item["metadata"].get("annotations") or {}).get(_REVISION, 0))
