"""The gate of the pod-checkpointer: every controller has current checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, replace

from upgrader.errors import ApiError
from upgrader.gates.api_absence import unanswered
from upgrader.gates.critical_workloads import critical_pods_on
from upgrader.gates.kubernetes_kinds import PODS
from upgrader.gates.remedies import describe_workload
from upgrader.gates.workload_diagnosis import diagnose_workload
from upgrader.gates.workload_reading import read_workload
from upgrader.model.cluster import Cluster
from upgrader.model.outcome import Verdict, VerdictKind, holds, pending
from upgrader.model.workload import CHECKPOINT_OF, Pod, WorkloadRef
from upgrader.ports import Kube

__all__ = ["CheckpointGate"]


@dataclass(frozen=True)
class CheckpointGate:
    """The checkpointer is Ready on every controller; it is Ready only while each checkpoint there is current."""

    kube: Kube
    cluster: Cluster
    ref: WorkloadRef

    @property
    def name(self) -> str:
        return "checkpoint"

    def check(self) -> Verdict:
        verdict = diagnose_workload(self.kube, self.ref)
        if verdict.kind not in (VerdictKind.HOLDS, VerdictKind.PENDING):
            return verdict
        try:
            if verdict.kind is VerdictKind.PENDING:
                return self._explained(verdict)
            return self._missing() or holds(f"checkpoints are current on every controller{self._active()}")
        except ApiError as error:
            return unanswered("checkpoints", error)

    def _explained(self, verdict: Verdict) -> Verdict:
        """With the pods that lack a checkpoint, and why: most often that a new one has to stay Ready for some seconds.

        The checkpointer itself is only not Ready, and its probe says `503`, which reads as if something were broken.
        """
        pods = [pod for host in self.cluster.controllers for pod in critical_pods_on(self.kube, host.name)]
        without = [pod for pod in pods if pod.no_checkpoint]
        if not without:
            return verdict
        first, more = without[0], len(without) - 1
        reason = f"no checkpoint yet of pod {first.name} on {first.node}: {first.no_checkpoint}"
        if more:
            reason += f"; the same for {more} more pod{'s' if more > 1 else ''}"
        return replace(verdict, reason=reason, details=(verdict.reason, *verdict.details))

    def _missing(self) -> Verdict | None:
        reading = read_workload(self.kube, self.ref)
        nodes = {pod.node for pod in reading.newest} if reading else set()
        without = [host.name for host in self.cluster.controllers if host.name not in nodes]
        if not without:
            return None
        return pending(f"{self.ref}: no pod on {', '.join(without)}", remedy=describe_workload(self.ref))

    def _active(self) -> str:
        """Which standby pods replace their parents: worth reporting, but no reason to fail.

        They run where a pod is missing, and the next step may restore it. The checkpointer's own standby pod always
        runs beside it. They are read by node, which the API server has an index for, and as the gate of the critical
        pods does in the same round: for a label, it would look at every pod of the cluster.
        """
        names = (host.name for host in self.cluster.controllers)
        pods = (Pod.parse(item) for name in names for item in self.kube.list(PODS, fields=f"spec.nodeName={name}"))
        standby = (pod for pod in pods if CHECKPOINT_OF in pod.labels and not pod.finished)
        active = [pod for pod in standby if pod.labels[CHECKPOINT_OF] != self.ref.name]
        named = ", ".join(f"{pod.labels[CHECKPOINT_OF]} on {pod.node}" for pod in active)
        return f"; standby pods are active for {named}" if active else ""
