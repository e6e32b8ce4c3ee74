"""The gate of the pods that the cluster itself depends on: the critical ones of kube-system."""

from __future__ import annotations

from dataclasses import dataclass

from upgrader.errors import ApiError
from upgrader.gates.api_absence import unanswered
from upgrader.gates.kubernetes_kinds import PODS
from upgrader.gates.workload_diagnosis import explain_pod
from upgrader.model.outcome import Verdict, holds, unknown
from upgrader.model.workload import Pod
from upgrader.ports import Kube

__all__ = ["CriticalPodsGate"]

_NAMESPACE = "kube-system"
_CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})


@dataclass(frozen=True)
class CriticalPodsGate:
    """Every critical pod is Ready; finished, terminating and standby pods don't count."""

    kube: Kube

    @property
    def name(self) -> str:
        return "critical-pods"

    def check(self) -> Verdict:
        try:
            pods = [Pod.parse(item) for item in self.kube.list(PODS, _NAMESPACE)]
            critical = [
                pod
                for pod in pods
                if pod.priority_class in _CRITICAL and not (pod.finished or pod.deleting or pod.is_checkpoint)
            ]
            for pod in critical:
                verdict = explain_pod(self.kube, "critical pod", pod)
                if verdict is not None:
                    return verdict
        except ApiError as error:
            return unanswered("critical pods", error)
        if not critical:
            return unknown(
                f"{_NAMESPACE} has no critical pod, where at least the control plane's should be",
                remedy=f"Give the control plane's pods one of the priority classes {', '.join(sorted(_CRITICAL))}.",
            )
        return holds(f"{len(critical)} of {len(critical)} critical pods Ready")
