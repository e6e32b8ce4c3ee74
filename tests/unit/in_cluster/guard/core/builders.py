"""Reviews, StatefulSets and pods in a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from upgrader.in_cluster.guard.core.admission import AdmissionRequest, parse
from upgrader.in_cluster.guard.core.rollout import GROUP_LABEL, MAX_UNAVAILABLE
from upgrader.in_cluster.guard.core.workloads import Pod, StatefulSet

OLD, NEW = "web-old", "web-new"
Json = dict[str, Any]


def zone(name: str, replicas: int = 3, *, most: str | None = "2", group: str = "web", **changes: Any) -> StatefulSet:
    """A StatefulSet of a group, whole and up to date, whose name is its UID."""
    return StatefulSet(
        namespace="ns",
        name=name,
        uid=name,
        labels={GROUP_LABEL: group, **changes.pop("labels", {})},
        annotations={**({} if most is None else {MAX_UNAVAILABLE: most}), **changes.pop("annotations", {})},
        **{
            "replicas": replicas,
            "update_strategy": "OnDelete",
            "status_replicas": replicas,
            "ready_replicas": replicas,
            "current_revision": NEW,
            "update_revision": NEW,
            **changes,
        },
    )


def member(name: str, revision: str = NEW, **changes: Any) -> Pod:
    """A ready pod of the StatefulSet that its name begins with; its name is its UID."""
    owner = name.rpartition("-")[0]
    made = Pod(
        namespace="ns",
        name=name,
        uid=name,
        labels={"controller-revision-hash": revision, GROUP_LABEL: "web"},
        owner_kind="StatefulSet",
        owner_name=owner,
        owner_uid=owner,
        phase="Running",
        scheduled=True,
        ready_since=0.0,
    )
    return replace(made, **changes)


def members(of: str, revision: str = NEW, count: int = 3) -> list[Pod]:
    """Its first pods, all ready."""
    return [member(f"{of}-{ordinal}", revision) for ordinal in range(count)]


def without(pods: Iterable[Pod], *names: str) -> list[Pod]:
    """All but those of these names."""
    return [p for p in pods if p.name not in names]


def changed(pods: Iterable[Pod], name: str, **changes: Any) -> list[Pod]:
    """The same pods, one of them changed."""
    return [replace(p, **changes) if p.name == name else p for p in pods]


def review_of(operation: str = "UPDATE", **changes: Any) -> Json:
    """An AdmissionReview as the API server sends it; by default web's update from 3 to 3 replicas."""
    request: Json = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "apps", "version": "v1", "kind": "StatefulSet"},
        "resource": {"group": "apps", "version": "v1", "resource": "statefulsets"},
        "name": "web",
        "namespace": "ns",
        "operation": operation,
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "object": workload(3),
        "oldObject": workload(3),
        "dryRun": False,
        "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {**request, **changes}}


def workload(replicas: object, labels: Mapping[str, str] | None = None, **spec: object) -> Json:
    """An object with replicas."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "ns", "labels": dict(labels or {})},
        "spec": {"replicas": replicas, **spec},
    }


def scale(replicas: int) -> Json:
    """A Scale as Go writes it: with no replicas when they are 0."""
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "web", "namespace": "ns"},
        "spec": {"replicas": replicas} if replicas else {},
    }


def request_of(document: Json) -> AdmissionRequest:
    """The request as parsed from the wire."""
    return parse(json.dumps(document).encode())
