"""Whether pods of workloads fail, by their own status alone: cheaper than a diagnosis, and no substitute for one."""

from __future__ import annotations

from collections.abc import Iterable

from upgrader.gates.pod_faults import Severity, pod_fault
from upgrader.gates.workload_reading import find_workload, related_pods
from upgrader.model.workload import Pod, Workload
from upgrader.ports import Kube

__all__ = ["any_fails"]


def any_fails(kube: Kube, workloads: Iterable[Workload], *, most_pods: int) -> bool:
    """Whether a container of one of their pods has failed, or can't be started. Raises ApiUnavailable or ApiError.

    Of a workload with more pods only its own object is read: an API that is lost, or no longer serves it, shows.
    """
    return any(_fails(kube, workload, most_pods) for workload in workloads)


def _fails(kube: Kube, workload: Workload, most_pods: int) -> bool:
    if workload.desired > most_pods:
        return find_workload(kube, workload.ref) is None
    name = f"{workload.ref.kind} {workload.ref.name}"
    faults = (pod_fault(pod) for pod in map(Pod.parse, related_pods(kube, workload)) if pod.workload == name)
    return any(fault is not None and fault.severity >= Severity.FAILING for fault in faults)
