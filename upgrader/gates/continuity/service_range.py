"""Whether Services have the addresses that they had."""

from __future__ import annotations

from upgrader.errors import ApiError
from upgrader.gates.continuity.findings import KEEP_THE_RELEASES, contradicted
from upgrader.gates.kubernetes_kinds import SERVICE_CIDRS, SERVICES
from upgrader.model.baseline import Baseline
from upgrader.model.outcome import Verdict, broken
from upgrader.ports import Kube

__all__ = ["check_service_range", "read_cluster_ip", "read_ranges"]


def read_cluster_ip(kube: Kube) -> str:
    """The ClusterIP of the Service `kubernetes`; "" without that Service. Raises ApiUnavailable or ApiError."""
    found = kube.get(SERVICES, "kubernetes", "default")
    return str(found["spec"].get("clusterIP") or "") if found else ""


def read_ranges(kube: Kube) -> tuple[str, ...]:
    """The ranges that Services get their addresses from, those in order only. Raises ApiUnavailable or ApiError."""
    ready = [item for item in kube.list(SERVICE_CIDRS) if not _problem(item.get("status") or {})]
    return tuple(sorted(cidr for item in ready for cidr in item["spec"].get("cidrs") or ()))


def check_service_range(kube: Kube, baseline: Baseline) -> Verdict | None:
    """The Service `kubernetes` has its address, and every range is still there and in order."""
    remedy = f"Check kube-apiserver's flag service-cluster-ip-range. {KEEP_THE_RELEASES}"
    try:
        address = read_cluster_ip(kube) if baseline.cluster_ip else ""
        if address != baseline.cluster_ip:
            said = f"{baseline.cluster_ip} before this run, and is now {address or 'missing'}"
            return broken(f"Service default/kubernetes: ClusterIP was {said}", remedy=remedy)
        lost = set(baseline.service_ranges) - set(read_ranges(kube) if baseline.service_ranges else ())
    except ApiError as error:
        return contradicted("reading the addresses of Services", error, remedy)
    if lost:
        words = f"Services got addresses from {', '.join(sorted(lost))} before this run, and no longer do"
        return broken(words, remedy=remedy)
    return None


def _problem(status: object) -> bool:
    conditions = status.get("conditions") or () if isinstance(status, dict) else ()
    return any(item.get("type") == "Ready" and item.get("status") == "False" for item in conditions)
