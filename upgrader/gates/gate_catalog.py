"""Which gates follow which release."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from upgrader.gates.apiserver_gate import ApiServerGate
from upgrader.gates.apiserver_instance import instance_flags, secure_port
from upgrader.gates.checkpoint_gate import CheckpointGate
from upgrader.gates.critical_pods_gate import CriticalPodsGate
from upgrader.gates.gate_memory import GateMemory
from upgrader.gates.kubeadm_config_gate import KubeadmConfigGate
from upgrader.gates.kubelet_config_gate import KubeletConfigGate
from upgrader.gates.manifest_workloads import StatefulSetIn, pod_spec, stateful_sets_in, templates_in, workloads_in
from upgrader.gates.metric_gate import MetricGate
from upgrader.gates.node_health import NodeHealth
from upgrader.gates.nodes_gate import NodesGate
from upgrader.gates.protector_gate import ProtectorGate
from upgrader.gates.rollout_gate import RolloutGate
from upgrader.gates.rollout_group_gate import RolloutGroupGate
from upgrader.gates.started_version import AskedVersions
from upgrader.model.cluster import Cluster
from upgrader.model.emulation import compatible_with, emulated_by
from upgrader.model.gate_settings import GatePolicy, MetricGateSettings, WorkloadGate
from upgrader.model.health_before import NONE, HealthBefore, IntOrPercent
from upgrader.model.images import images_of
from upgrader.model.settings import BUILT_IN_CHARTS
from upgrader.model.version import KubernetesVersion
from upgrader.model.workload import WorkloadKind, WorkloadRef
from upgrader.pipeline import Gate, GateRun
from upgrader.ports import Clock, Kube, Prometheus

__all__ = ["GateCatalog", "with_own_policy"]

_KINDS: dict[str, WorkloadKind] = {
    "daemonset": "DaemonSet",
    "deployment": "Deployment",
    "statefulset": "StatefulSet",
}


@dataclass(frozen=True)
class GateCatalog:
    """The gates of one cluster, each asked as `policy` says."""

    kube: Kube
    clock: Clock
    cluster: Cluster
    policy: GatePolicy
    health_before: HealthBefore | None = None
    """The cluster before the run; None: nothing is known of it."""
    spare_workers: IntOrPercent = NONE
    """How many of its workers may become unhealthy."""
    memory: GateMemory = field(default_factory=GateMemory)

    @property
    def health(self) -> NodeHealth:
        """How healthy the nodes are."""
        return NodeHealth(
            self.kube, self.clock, tuple(host.name for host in self.cluster.controllers), self.memory.nodes
        )

    def _absent(self, nodes: Collection[str]) -> Collection[str]:
        """Of controllers none is, whatever is wrong with it; workers may be thousands, and are read for workers."""
        if {*nodes} <= {host.name for host in self.cluster.controllers}:
            return ()
        return self.health.absent(self.health_before.workers if self.health_before else None)

    def of_release(
        self,
        release: str,
        manifest: str,
        *,
        namespace: str,
        target: KubernetesVersion | None,
        applied: bool = False,
        brought: Mapping[str, KubernetesVersion] = MappingProxyType({}),
    ) -> tuple[GateRun, ...]:
        """A release's own gates, then those of the cluster, which stand behind every step.

        `applied`: the manifest has just been applied, and no one else may have changed its workloads since. `brought`:
        the containers that have got another image, with the version that it has to be of.
        """
        own = self.own(release, manifest, namespace=namespace, target=target, applied=applied, brought=brought)
        return own + self.of_cluster()

    def of_undo(
        self, release: str, manifest: str, *, namespace: str, target: KubernetesVersion | None
    ) -> tuple[GateRun, ...]:
        """The same behind a rollback: a worker that is down for a reason of its own doesn't make it fail."""
        own = self.own(release, manifest, namespace=namespace, target=target, images=False)
        return own + self.of_controllers()

    def own(
        self,
        release: str,
        manifest: str,
        *,
        namespace: str,
        target: KubernetesVersion | None,
        applied: bool = False,
        images: bool = True,
        brought: Mapping[str, KubernetesVersion] = MappingProxyType({}),
    ) -> tuple[GateRun, ...]:
        """The gates of a release as its rendered manifest says: one a workload, then those that it is known for.

        `namespace` is the release's. `target` is the version that kube-apiserver must serve; None: any. A release that
        is not installed has the manifest "", and no gates of its own. The StatefulSets of a rollout group share one.
        """
        gates: list[Gate] = []
        sets = stateful_sets_in(manifest, namespace)
        templates = templates_in(manifest, namespace) if applied else {}
        for ref in workloads_in(manifest, namespace):
            if ref in sets:
                continue
            gate = replace(self._rollout(release, manifest, ref, brought), applied=templates.get(ref, {}))
            # What ran before a run is not judged once it runs again: a rollback would fail for it.
            gates.append(gate if images else replace(gate, images={}, asked=None))
            if ref.name == release == "kube-apiserver":
                spec = pod_spec(manifest, ref.name)
                port, flags = secure_port(spec), instance_flags(spec)
                asked = {"emulated": emulated_by(flags), "compatible": compatible_with(flags)}
                gates.append(
                    ApiServerGate(self.kube, self.cluster, ref, target, port, self.memory.unreachable, **asked)
                )
            elif ref.name == release == "pod-checkpointer":
                gates.append(CheckpointGate(self.kube, self.cluster, ref))
        return (*map(self.run, gates), *self._of_stateful_sets(sets.values()))

    def _rollout(
        self, release: str, manifest: str, ref: WorkloadRef, brought: Mapping[str, KubernetesVersion]
    ) -> RolloutGate:
        if release not in BUILT_IN_CHARTS:  # it may be for nodes that this cluster doesn't have
            return RolloutGate(self.kube, ref, allow_none=True, absent=self._absent)
        asked = AskedVersions([host.name for host in self.cluster.controllers], self.memory.versions, brought)
        planned = images_of(pod_spec(manifest, ref.name))
        return RolloutGate(self.kube, ref, absent=self._absent, images=planned, asked=asked)

    def _of_stateful_sets(self, sets: Collection[StatefulSetIn]) -> Iterator[GateRun]:
        """One for each, or for its group. Where Helm waits for no pod, the gate does, for as long as that may take."""
        groups: dict[tuple[str, str], float] = {}
        for item in sets:
            if item.group:
                group = item.ref.namespace, item.group
                groups[group] = groups.get(group, 0.0) + item.seconds
            else:
                gate = RolloutGate(self.kube, item.ref, absent=self._absent)
                yield self._longer(gate, item.seconds if item.on_delete else 0.0)
        for (namespace, name), seconds in groups.items():
            yield self._longer(RolloutGroupGate(self.kube, namespace, name), seconds)

    def _longer(self, gate: Gate, seconds: float) -> GateRun:
        scaled = self.scaled
        return GateRun(gate, replace(scaled, deadline_seconds=scaled.deadline_seconds + seconds))

    def of_cluster(self) -> tuple[GateRun, ...]:
        """Nodes and critical pods."""
        nodes = NodesGate(self.health, self.cluster, self.health_before, self.spare_workers)
        return self.run(nodes), self.run(CriticalPodsGate(self.kube, self.health, self.cluster, self.health_before))

    def of_controllers(self) -> tuple[GateRun, ...]:
        """The same, of the controllers alone."""
        nodes = NodesGate(self.health, self.cluster, controllers_only=True)
        pods = CriticalPodsGate(self.kube, self.health, self.cluster, self.health_before, controllers_only=True)
        return self.run(nodes), self.run(pods)

    def of_kubeadm(self, version: KubernetesVersion) -> GateRun:
        """kubeadm believes that this version runs. Asked once: nothing that runs can take it back."""
        return GateRun(KubeadmConfigGate(self.kube, version), replace(self.scaled, consecutive=1))

    def of_kubelet_config(self, fields: Mapping[str, Any]) -> GateRun:
        """Nodes that join get these fields. Asked once, too."""
        return GateRun(KubeletConfigGate(self.kube, fields), replace(self.policy, consecutive=1))

    def of_metric(self, prometheus: Prometheus, gate: MetricGateSettings) -> GateRun:
        """A metric gate of `upgrader.yaml`; each wait begins a window of its own."""
        make = partial(MetricGate, prometheus, self.clock, gate)
        return GateRun(make(), gate.policy, make)

    def of_workload(self, gate: WorkloadGate) -> GateRun:
        """A gate that `upgrader.yaml` adds to a step, with a policy of its own."""
        own = replace(self, policy=gate.policy)
        if gate.kind == "rolloutGroup":
            return own.run(RolloutGroupGate(self.kube, gate.namespace, gate.name))
        if gate.kind == "protector":
            return own.run(ProtectorGate(self.kube, self.clock, gate.namespace, gate.name, self.memory.protectors))
        ref = WorkloadRef(_KINDS[gate.kind], gate.namespace, gate.name)
        return own.run(RolloutGate(self.kube, ref, absent=self._absent))

    def run(self, gate: Gate) -> GateRun:
        """A gate, asked as the policy says."""
        return GateRun(gate, self.scaled)

    @property
    def scaled(self) -> GatePolicy:
        """The policy, with the pace of a cluster of this size."""
        workers = self.health_before.workers if self.health_before else self.cluster.workers
        return self.policy.at_scale(len(self.cluster.controllers) + len(workers))


def with_own_policy(own: tuple[GateRun, ...], given: tuple[GateRun, ...]) -> tuple[GateRun, ...]:
    """A release's own gates and those of upgrader.yaml, without its own of a rollout group that the file has, too: the
    file says how long that one may take.
    """
    groups = [run.gate for run in given if isinstance(run.gate, RolloutGroupGate)]

    def again(gate: Gate) -> bool:
        return isinstance(gate, RolloutGroupGate) and any(str(gate) == str(group) for group in groups)

    return (*(run for run in own if not again(run.gate)), *given)
