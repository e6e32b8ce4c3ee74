"""Deletes a wrong pod for good: once its Deployment has another template, its ReplicaSet makes no other one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upgrader.gates.kubernetes_kinds import PODS, REPLICA_SETS, WORKLOADS
from upgrader.onhost.node.disk_layout import KUBE_APISERVER
from upgrader.ports import Kube, KubeObject

__all__ = ["retire"]

_HASH = "pod-template-hash"


def retire(kube: Kube, pod: str) -> None:
    """Delete a pod of kube-apiserver, and take its place from its ReplicaSet, if the Deployment was rolled back.

    A Deployment keeps the old ReplicaSet at its size until the new one's pods are Ready: in place of each pod that is
    deleted it would make another one, as wrong, after the right one had started. What an API server of other flags
    deletes at its start (the APIServices of groups that it doesn't serve), a right one restores at its own start only.
    Raises ApiUnavailable or ApiError.
    """
    namespace = KUBE_APISERVER.namespace
    found = kube.get(PODS, pod, namespace)
    owner = _owner(found, "ReplicaSet") if found is not None else ""
    replica_set = kube.get(REPLICA_SETS, owner, namespace) if owner else None
    name = _owner(replica_set, "Deployment") if replica_set is not None else ""
    deployment = kube.get(WORKLOADS["Deployment"], name, namespace) if name else None
    if replica_set is not None and deployment is not None and _template(replica_set) != _template(deployment):
        replicas = int(replica_set["spec"].get("replicas") or 0)
        if replicas:
            spec = {**replica_set["spec"], "replicas": replicas - 1}
            kube.replace(REPLICA_SETS, {**replica_set, "spec": spec}, namespace)
    kube.delete(PODS, pod, namespace)


def _owner(item: KubeObject, kind: str) -> str:
    owners = item["metadata"].get("ownerReferences") or ()
    return next((str(owner["name"]) for owner in owners if owner.get("kind") == kind), "")


def _template(item: KubeObject) -> Mapping[str, Any]:
    """Without the label that only a ReplicaSet's template has."""
    template = item["spec"]["template"]
    meta = template.get("metadata") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != _HASH}
    return {**template, "metadata": {**meta, "labels": labels}}
