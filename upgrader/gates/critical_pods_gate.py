"""The gate of the pods that the cluster itself depends on: the critical ones of kube-system, and those of nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from upgrader.errors import ApiError
from upgrader.gates.api_absence import unanswered
from upgrader.gates.critical_workloads import SYSTEM, critical_pods_on, short_workloads
from upgrader.gates.kubernetes_kinds import PODS
from upgrader.gates.node_health import NodeHealth
from upgrader.gates.workload_diagnosis import explain_pod
from upgrader.model.cluster import Cluster
from upgrader.model.health_before import HealthBefore
from upgrader.model.outcome import Verdict, holds, unknown
from upgrader.model.workload import Pod
from upgrader.ports import Kube

__all__ = ["CriticalPodsGate"]


@dataclass(frozen=True)
class CriticalPodsGate:
    """Every critical pod is Ready; finished, terminating and standby pods don't count.

    Those on controllers are read one by one; elsewhere the workloads' own counts show which of them to read, for a
    large cluster has thousands. Pods on workers that are down say nothing of a step, nor does what was not Ready
    before the run.
    """

    kube: Kube
    health: NodeHealth
    cluster: Cluster
    health_before: HealthBefore | None = None
    controllers_only: bool = False
    name: str = "critical-pods"

    def check(self) -> Verdict:
        known = self.health_before.unready if self.health_before else ()
        try:
            pods = [pod for host in self.cluster.controllers for pod in critical_pods_on(self.kube, host.name)]
            verdict = self._explained(pod for pod in pods if pod.workload not in known)
            if verdict is None and not self.controllers_only:
                verdict = self._elsewhere(known)
        except ApiError as error:
            return unanswered("critical pods", error)
        if verdict is not None:
            return verdict
        if not any(pod.namespace == SYSTEM for pod in pods):
            return unknown(
                f"no controller has a critical pod in {SYSTEM}; at least the control plane's pods should be critical",
                remedy="Give the control plane's pods the priority class system-node-critical, and check the group "
                "`controllers` of the inventory.",
            )
        without = f"; ignored, because they were not Ready before the run: {', '.join(known)}" if known else ""
        return holds(f"all critical pods on controllers are Ready ({len(pods)}){without}")

    def _elsewhere(self, known: tuple[str, ...]) -> Verdict | None:
        for workload in short_workloads(self.kube):
            if workload.name in known:
                continue
            pods = [Pod.parse(item) for item in self.kube.list(PODS, workload.namespace, labels=workload.selector)]
            unready = [pod for pod in pods if not (pod.ready or pod.finished or pod.deleting or pod.is_checkpoint)]
            absent = self.health.absent(self.health_before.workers if self.health_before else None) if unready else ()
            verdict = self._explained(pod for pod in unready if pod.node not in absent)
            if verdict is not None:
                return verdict
        return None

    def _explained(self, pods: Iterable[Pod]) -> Verdict | None:
        explained = (explain_pod(self.kube, "critical pod", pod) for pod in pods)
        return next((verdict for verdict in explained if verdict is not None), None)
