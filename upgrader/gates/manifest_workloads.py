"""The workloads that a rendered chart puts into the cluster."""

from __future__ import annotations

from typing import Any, get_args

import yaml

from upgrader.model.workload import WorkloadKind, WorkloadRef

__all__ = ["workloads_in"]

_HOOK = "helm.sh/hook"


def workloads_in(manifest: str, namespace: str) -> tuple[WorkloadRef, ...]:
    """Each Deployment and DaemonSet in the manifest's order; `namespace` applies to objects without one."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    documents: list[Any] = [item for item in yaml.load_all(manifest, Loader=loader) if isinstance(item, dict)]
    kinds: dict[str, WorkloadKind] = {kind: kind for kind in get_args(WorkloadKind)}
    return tuple(
        WorkloadRef(kinds[item["kind"]], item["metadata"].get("namespace") or namespace, item["metadata"]["name"])
        for item in documents
        # Helm decides how long a hook lives; it is no part of the release.
        if item.get("kind") in kinds and _HOOK not in (item["metadata"].get("annotations") or {})
    )
