"""The workloads that a rendered chart puts into the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import yaml

from upgrader.model.workload import WorkloadKind, WorkloadRef

__all__ = ["pod_spec", "workloads_in"]

_HOOK = "helm.sh/hook"


def workloads_in(manifest: str, namespace: str) -> tuple[WorkloadRef, ...]:
    """Each Deployment and DaemonSet in the manifest's order; `namespace` applies to objects without one."""
    kinds: dict[str, WorkloadKind] = {kind: kind for kind in get_args(WorkloadKind)}
    return tuple(
        WorkloadRef(kinds[item["kind"]], item["metadata"].get("namespace") or namespace, item["metadata"]["name"])
        for item in _documents(manifest)
        # Helm decides how long a hook lives; it is no part of the release.
        if item.get("kind") in kinds and _HOOK not in (item["metadata"].get("annotations") or {})
    )


def pod_spec(manifest: str, name: str) -> Mapping[str, Any]:
    """The spec of a workload's pods; empty where the manifest has no such workload."""
    for item in _documents(manifest):
        if item.get("kind") in get_args(WorkloadKind) and item["metadata"]["name"] == name:
            found: Mapping[str, Any] = (item.get("spec") or {}).get("template", {}).get("spec", {})
            return found
    return {}


def _documents(manifest: str) -> list[Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [item for item in yaml.load_all(manifest, Loader=loader) if isinstance(item, dict)]
