"""No namespace is stuck in its deletion."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.gates.kubernetes_kinds import NAMESPACES
from upgrader.model.finding import Finding
from upgrader.model.workload import parse_time
from upgrader.preflight.context import PreflightContext

__all__ = ["check_namespaces"]

_STUCK_SECONDS = 600.0
"""Kubernetes needs less for one with thousands of pods whose grace period is the default."""


def check_namespaces(context: PreflightContext) -> Iterator[Finding]:
    """Namespaces that have been Terminating for ten minutes: a removed API or a controller may block them."""
    for namespace in context.kube.list(NAMESPACES):
        meta, status = namespace["metadata"], namespace.get("status") or {}
        since = parse_time(meta.get("deletionTimestamp"))
        if since is None or (context.clock.now() - since).total_seconds() < _STUCK_SECONDS:
            continue
        said = [
            f"{item['type']}: {item.get('message', '')}"
            for item in status.get("conditions") or ()
            if item.get("status") == "True"
        ]
        yield Finding(
            "namespaces.terminating",
            "warning",
            f"namespace {meta['name']} has been Terminating since {meta['deletionTimestamp']}",
            "\n".join(said),
            "Find the objects with finalizers in it, and fix the controller that should remove the finalizers.",
        )
