"""etcd is healthy. Other critical pods that aren't Ready are listed: the run's gates ignore them."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.errors import ApiError, ApiUnavailable
from upgrader.gates.critical_workloads import unready_workloads
from upgrader.gates.workload_diagnosis import explain_pod
from upgrader.model.components import COMPONENTS
from upgrader.model.finding import Finding
from upgrader.model.workload import Pod
from upgrader.preflight.context import SYSTEM, PreflightContext

__all__ = ["check_critical_pods"]

_ETCD_SEES = "/readyz/etcd"
_REMEDY = (
    "Repair etcd first: kubectl -n kube-system logs etcd-NODE; etcdctl endpoint health --cluster; etcdctl alarm list"
)


def check_critical_pods(context: PreflightContext) -> Iterator[Finding]:
    """Every etcd member is Ready: an upgrade needs all of them, as the next failure costs the majority."""
    for host in context.cluster.controllers:
        for pod in map(Pod.parse, context.pods_on(host.name)):
            if pod.namespace == SYSTEM and pod.labels.get("component") == "etcd" and not pod.ready:
                verdict = explain_pod(context.kube, f"etcd on {host.name}", pod)
                why = verdict.lines() if verdict else ()
                yield Finding("etcd.not-ready", "error", f"etcd on {host.name} is not Ready", "\n".join(why), _REMEDY)
    try:
        context.kube.raw(_ETCD_SEES)
    except ApiUnavailable:
        raise
    except ApiError as error:
        if error.status in (401, 403):
            yield Finding(
                "etcd.unknown",
                "unknown",
                "these credentials aren't allowed to read etcd's health from kube-apiserver",
                error.message,
                f"Allow `get` on the nonResourceURLs /readyz and {_ETCD_SEES} to that user in a ClusterRole.",
            )
        elif error.status != 404:
            yield Finding("etcd.unhealthy", "error", "kube-apiserver reports etcd as unhealthy", error.message, _REMEDY)
    unready = [name for name in unready_workloads(context.kube, context.cluster) if not _is_checked_elsewhere(name)]
    if unready:
        yield Finding(
            "critical-pods.not-ready",
            "warning",
            f"{', '.join(unready)}: not all critical pods are Ready",
            "The run ignores pods that were not Ready before it.",
            "kubectl get pods --all-namespaces",
        )


def _is_checked_elsewhere(name: str) -> bool:
    kind, _, short = name.partition(" ")
    return short in (*COMPONENTS, "pod-checkpointer") or (kind == "Pod" and short.startswith("etcd-"))
