"""Which gates follow which release."""

from __future__ import annotations

from dataclasses import dataclass, replace

from upgrader.gates.apiserver_gate import ApiServerGate
from upgrader.gates.checkpoint_gate import CheckpointGate
from upgrader.gates.critical_pods_gate import CriticalPodsGate
from upgrader.gates.manifest_workloads import workloads_in
from upgrader.gates.nodes_gate import NodesGate
from upgrader.gates.rollout_gate import RolloutGate
from upgrader.model.cluster import Cluster
from upgrader.model.settings import BUILT_IN_CHARTS, GatePolicy, WorkloadGate
from upgrader.model.version import KubernetesVersion
from upgrader.model.workload import WorkloadKind, WorkloadRef
from upgrader.pipeline import Gate, GateRun
from upgrader.ports import Clock, Kube

__all__ = ["GateCatalog"]

_KINDS: dict[str, WorkloadKind] = {"daemonset": "DaemonSet", "deployment": "Deployment"}


@dataclass(frozen=True)
class GateCatalog:
    """The gates of one cluster, each asked as `policy` says."""

    kube: Kube
    clock: Clock
    cluster: Cluster
    policy: GatePolicy

    def of_release(
        self, release: str, manifest: str, *, namespace: str, target: KubernetesVersion | None
    ) -> tuple[GateRun, ...]:
        """A release's own gates, then those of the cluster, which stand behind every step."""
        return self.own(release, manifest, namespace=namespace, target=target) + self.of_cluster()

    def own(
        self, release: str, manifest: str, *, namespace: str, target: KubernetesVersion | None
    ) -> tuple[GateRun, ...]:
        """The gates of a release as its rendered manifest says: one a workload, then those that it is known for.

        `namespace` is the release's. `target` is the version that kube-apiserver must serve; None: any. A release that
        is not installed has the manifest "", and no gates of its own.
        """
        gates: list[Gate] = []
        for ref in workloads_in(manifest, namespace):
            # Ours must run somewhere; a chart of the user's may be for nodes that this cluster doesn't have.
            gates.append(RolloutGate(self.kube, self.clock, ref, allow_none=release not in BUILT_IN_CHARTS))
            if ref.name == release == "kube-apiserver":
                gates.append(ApiServerGate(self.kube, self.clock, self.cluster, ref, target))
            elif ref.name == release == "pod-checkpointer":
                gates.append(CheckpointGate(self.kube, self.clock, self.cluster, ref))
        return tuple(map(self.run, gates))

    def of_cluster(self) -> tuple[GateRun, ...]:
        """Nodes and critical pods."""
        nodes = NodesGate(self.kube, self.clock, self.cluster)
        return self.run(nodes), self.run(CriticalPodsGate(self.kube))

    def of_workload(self, gate: WorkloadGate) -> GateRun:
        """A gate that `upgrader.yaml` adds to a step, with a policy of its own."""
        ref = WorkloadRef(_KINDS[gate.kind], gate.namespace, gate.name)
        return replace(self, policy=gate.policy).run(RolloutGate(self.kube, self.clock, ref))

    def run(self, gate: Gate) -> GateRun:
        """A gate, asked as the policy says."""
        return GateRun(gate, self.policy)
