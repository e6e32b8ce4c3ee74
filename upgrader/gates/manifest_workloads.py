"""The workloads that a rendered chart puts into the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from upgrader.model.manifest import Manifest, objects_in
from upgrader.model.pod_placement import may_run_on
from upgrader.model.rollout_time import replacement_seconds
from upgrader.model.workload import ROLLOUT_GROUP, WorkloadKind, WorkloadRef, waits_for_deletion

__all__ = [
    "StatefulSetIn",
    "daemon_sets_on",
    "on_delete_in",
    "pod_spec",
    "stateful_sets_in",
    "templates_in",
    "workloads_in",
]

_HOOK = "helm.sh/hook"


def workloads_in(manifest: str, namespace: str) -> tuple[WorkloadRef, ...]:
    """Each Deployment, DaemonSet and StatefulSet in their order; `namespace` applies to objects without one."""
    return tuple(ref for ref, _ in _workloads(manifest, namespace))


def templates_in(manifest: str, namespace: str) -> dict[WorkloadRef, Mapping[str, Any]]:
    """The pod template of each of these workloads."""
    return {ref: (item.get("spec") or {}).get("template") or {} for ref, item in _workloads(manifest, namespace)}


def daemon_sets_on(
    manifest: str, namespace: str, nodes: Iterable[Mapping[str, Any]]
) -> dict[str, tuple[WorkloadRef, ...]]:
    """The DaemonSets among these workloads that want a pod on a node, by the name of each node on which one does."""
    specs = {
        ref: template.get("spec") or {}
        for ref, template in templates_in(manifest, namespace).items()
        if ref.kind == "DaemonSet"
    }
    found = {
        str(node["metadata"]["name"]): tuple(ref for ref, spec in specs.items() if may_run_on(spec, node))
        for node in nodes
    }
    return {name: refs for name, refs in found.items() if refs}


def on_delete_in(manifest: str, namespace: str) -> frozenset[WorkloadRef]:
    """Those of these workloads whose pods their controllers don't replace: others do (the strategy OnDelete)."""
    return frozenset(ref for ref, item in _workloads(manifest, namespace) if waits_for_deletion(item))


@dataclass(frozen=True)
class StatefulSetIn:
    """A StatefulSet of a manifest."""

    ref: WorkloadRef
    group: str
    """The rollout group that it belongs to; "" for none."""
    on_delete: bool
    """Whether Helm doesn't wait for its pods: it has others replace them (the strategy OnDelete)."""
    seconds: float
    """How long it may take to replace its pods."""


def stateful_sets_in(manifest: str, namespace: str) -> dict[WorkloadRef, StatefulSetIn]:
    """The StatefulSets among these workloads."""
    return {
        ref: StatefulSetIn(
            ref,
            str((item["metadata"].get("labels") or {}).get(ROLLOUT_GROUP) or ""),
            waits_for_deletion(item),
            replacement_seconds(item),
        )
        for ref, item in _workloads(manifest, namespace)
        if ref.kind == "StatefulSet"
    }


def _workloads(manifest: str, namespace: str) -> Iterator[tuple[WorkloadRef, Manifest]]:
    kinds: dict[str, WorkloadKind] = {kind: kind for kind in get_args(WorkloadKind)}
    for item in objects_in(manifest).values():
        meta = item.get("metadata") or {}
        # Helm decides how long a hook lives; it is no part of the release.
        if item.get("kind") in kinds and _HOOK not in (meta.get("annotations") or {}):
            yield WorkloadRef(kinds[item["kind"]], meta.get("namespace") or namespace, meta["name"]), item


def pod_spec(manifest: str, name: str) -> Mapping[str, Any]:
    """The spec of a workload's pods; empty where the manifest has no such workload."""
    for item in objects_in(manifest).values():
        if item.get("kind") in get_args(WorkloadKind) and item["metadata"]["name"] == name:
            found: Mapping[str, Any] = (item.get("spec") or {}).get("template", {}).get("spec", {})
            return found
    return {}
