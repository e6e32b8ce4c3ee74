"""The role of IngressDaemonSets, joined."""

from __future__ import annotations

from collections.abc import Callable

from upgrader.in_cluster.guard.commands.flags import Settings
from upgrader.in_cluster.guard.roles.ingress import IngressDaemonSets
from upgrader.in_cluster.guard.roles.rolling_groups import RollingGroups
from upgrader.in_cluster.guard.roles.run_lease import RunLease
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.ingress_metrics import IngressMetrics
from upgrader.in_cluster.guard.runtime.leadership import Leadership
from upgrader.in_cluster.guard.runtime.metrics import Metrics

__all__ = ["ingress_role"]

_LEASE = "guard-ingress"


def ingress_role(
    api: Api,
    settings: Settings,
    namespace: str,
    lead: Callable[[str], Leadership],
    metrics: Metrics,
    run_lease: RunLease | None,
) -> IngressDaemonSets:
    """As the flags say. `lead` makes the election for a Lease of `namespace`; `run_lease`: of the runs that hold them
    still.
    """
    return IngressDaemonSets(
        api,
        settings.ingress.namespaces,
        lead(_LEASE),
        IngressMetrics(metrics),
        settings.interval_seconds,
        image=settings.ingress.image,
        node_annotations=settings.ingress.node_annotations,
        holds=(run_lease, RollingGroups(api, namespace, _LEASE)) if run_lease else None,
    )
