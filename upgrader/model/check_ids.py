"""What checks may find: every id, so that `upgrader.yaml` can name one, and which of them an operator may overrule."""

from __future__ import annotations

from collections.abc import Mapping

from upgrader.model.finding import Severity

__all__ = ["READ_BY_CHECKS_ONLY", "SKIPPABLE", "WORST_SEVERITY", "may_be_overruled"]

SKIPPABLE = frozenset(
    {
        "admission",
        "apis",
        "autoscalers",
        "certificates",
        "critical-pods",
        "custom-resources",
        "disruption-budgets",
        "feature-gates",
        "flags",
        "helm",
        "memory",
        "namespaces",
        "networks",
        "removed-apis",
        "webhooks",
    }
)
"""The families, the part of an id before its point, that may be skipped. Without the others no run gets far, or none
finds a way back.
"""

READ_BY_CHECKS_ONLY = frozenset(
    {"apis", "custom-resources", "disruption-budgets", "namespaces", "networks", "webhooks"}
)
"""The families that read what no step, gate or rollback can't do without: without those rights, a run gets through."""

_FAMILIES = (
    *sorted(SKIPPABLE),
    "access",
    "checkpointer",
    "control-plane",
    "hosts",
    "instances",
    "kubelets",
    "nodes",
    "releases",
    "version",
)

WORST_SEVERITY: Mapping[str, Severity] = {
    **{f"{family}.unknown": "unknown" for family in _FAMILIES},
    **{f"{family}.forbidden": "warning" for family in READ_BY_CHECKS_ONLY},
    "access.missing": "error",
    "admission.refused": "error",
    "admission.untested": "info",
    "apis.requested-deprecated": "info",
    "apis.requested-removed": "warning",
    "apis.requests-unknown": "warning",
    "apis.unavailable": "warning",
    "autoscalers.reset": "warning",
    "certificates.expired": "error",
    "certificates.expiring": "warning",
    "certificates.unknown": "unknown",
    "charts.dependency": "unknown",
    "charts.refused": "error",
    "charts.remote": "unknown",
    "checkpointer.down": "error",
    "checkpointer.missing": "error",
    "checkpointer.not-ready": "error",
    "control-plane.astray": "warning",
    "control-plane.endpoints": "warning",
    "control-plane.leftover": "warning",
    "control-plane.missing": "warning",
    "control-plane.not-ready": "error",
    "control-plane.replicas": "error",
    "control-plane.static": "error",
    "critical-pods.not-ready": "warning",
    "custom-resources.conversion": "warning",
    "disruption-budgets.no-room": "warning",
    "disruption-budgets.not-computed": "warning",
    "disruption-budgets.overlap": "warning",
    "disruption-budgets.unhealthy": "warning",
    "etcd.not-ready": "error",
    "etcd.unhealthy": "error",
    "etcd.unknown": "unknown",
    "feature-gates.deprecated": "warning",
    "feature-gates.locked": "error",
    "feature-gates.no-data": "unknown",
    "feature-gates.removed": "error",
    "feature-gates.unsure": "warning",
    "files.invalid": "error",
    "files.not-opened": "unknown",
    "flags.deprecated": "warning",
    "flags.no-data": "unknown",
    "flags.removed": "error",
    "flags.unread": "warning",
    "helm.version": "error",
    "hosts.command": "error",
    "hosts.not-root": "error",
    "hosts.unreachable": "error",
    "instances.proxied": "info",
    "instances.unreachable": "error",
    "kubelets.too-old": "error",
    "memory.tight": "warning",
    "namespaces.terminating": "warning",
    "networks.no-pod-room": "warning",
    "networks.overlap": "warning",
    "networks.pod-room-unknown": "warning",
    "networks.service-room": "warning",
    "networks.service-room-unknown": "warning",
    "nodes.cordoned": "error",
    "nodes.deleting": "error",
    "nodes.missing": "error",
    "nodes.not-ready": "error",
    "nodes.pressure": "error",
    "nodes.unknown": "unknown",
    "nodes.unlabelled": "error",
    "nodes.unlisted": "error",
    "releases.busy": "error",
    "releases.last-failed": "info",
    "releases.never-worked": "error",
    "releases.pending": "warning",
    "releases.removed-apis": "error",
    "releases.stuck": "error",
    "removed-apis.damaged": "warning",
    "removed-apis.deprecated": "info",
    "removed-apis.others": "warning",
    "removed-apis.planned": "error",
    "removed-apis.unread": "warning",
    "version.downgrade": "error",
    "version.kubelet-ahead": "warning",
    "version.kubelet-newer": "error",
    "version.kubelet-older": "error",
    "version.not-known": "unknown",
    "version.too-old": "error",
    "webhooks.catches-control-plane": "warning",
    "webhooks.no-backend": "error",
    "webhooks.slow": "warning",
}
"""Each id, and the worst severity that its check gives it."""


def may_be_overruled(id_: str) -> bool:
    """Whether a run may start in spite of it."""
    return id_.partition(".")[0] in SKIPPABLE
