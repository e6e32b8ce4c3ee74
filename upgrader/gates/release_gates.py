"""Which gates follow which release."""

from __future__ import annotations

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

__all__ = ["gates_for", "workload_gate"]

_KINDS: dict[str, WorkloadKind] = {"daemonset": "DaemonSet", "deployment": "Deployment"}


def gates_for(
    release: str,
    manifest: str,
    *,
    namespace: str,
    kube: Kube,
    clock: Clock,
    cluster: Cluster,
    version: KubernetesVersion | None,
    policy: GatePolicy,
) -> tuple[GateRun, ...]:
    """The gates of a release: one for each workload of its manifest, those of a built-in release, and the cluster's.

    The cluster's gates (nodes, critical pods) follow every step, also one without a release (""). `namespace` is the
    release's; `version` None accepts any version of kube-apiserver.
    """
    gates: list[Gate] = []
    for ref in workloads_in(manifest, namespace):
        # A built-in workload must run somewhere; a user's may be for nodes that this cluster doesn't have.
        gates.append(RolloutGate(kube, clock, ref, allow_none=release not in BUILT_IN_CHARTS))
        if ref.name == release == "kube-apiserver":
            gates.append(ApiServerGate(kube, clock, cluster, ref, version))
        elif ref.name == release == "pod-checkpointer":
            gates.append(CheckpointGate(kube, clock, cluster, ref))
    gates += [NodesGate(kube, clock, cluster), CriticalPodsGate(kube)]
    return tuple(GateRun(gate, policy) for gate in gates)


def workload_gate(gate: WorkloadGate, kube: Kube, clock: Clock) -> GateRun:
    """A gate that `upgrader.yaml` adds to a step."""
    ref = WorkloadRef(_KINDS[gate.kind], gate.namespace, gate.name)
    return GateRun(RolloutGate(kube, clock, ref), gate.policy)
