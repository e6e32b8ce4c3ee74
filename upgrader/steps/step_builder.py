"""Builds each step with its gates: from the plan, from a journal to undo it, or to free a release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from upgrader.engine.history.named_changes import check_named, check_named_surge
from upgrader.engine.state.run_state import StepState
from upgrader.errors import UsageError
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.gate_memory import GateMemory
from upgrader.gates.release_gates import GateCatalog, with_own_policy
from upgrader.gates.shared_reads import ReadMemory, SharedReads
from upgrader.gates.workload_watcher import watch_workloads
from upgrader.model.cluster import Cluster
from upgrader.model.etcd_plan import PlannedEtcd
from upgrader.model.health_before import HealthBefore
from upgrader.model.own_steps import KUBEADM_CONFIG, KUBELET_CONFIG
from upgrader.model.plan import (
    Plan,
    PlannedKubeadmConfig,
    PlannedKubeletConfig,
    PlannedNodes,
    PlannedPlaybook,
    PlannedRelease,
    PlannedStep,
    PlannedSurge,
)
from upgrader.model.release import ReleaseSpec, RestorePoint
from upgrader.model.rollout_groups import groups_in
from upgrader.model.rollout_time import rollout_seconds
from upgrader.model.settings import OF_GUARD, MetricGateSettings, PlaybookSettings, Settings, StepGate, WorkloadGate
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import GateRun, PipelineStep, Step
from upgrader.ports import Tools
from upgrader.steps.etcd.builder import EtcdBuilder
from upgrader.steps.kubeadm_config.step import KubeadmConfigStep
from upgrader.steps.kubelet_config.step import KubeletConfigStep
from upgrader.steps.nodes.builder import NodesBuilder
from upgrader.steps.playbook.playbook_markers import PlaybookInspector, PlaybookMarkers
from upgrader.steps.playbook.step import PlaybookStep
from upgrader.steps.release.free_release import FreeReleaseStep
from upgrader.steps.release.helm_release import ChartStep
from upgrader.steps.release.release_inspector import ReleaseInspector
from upgrader.steps.verify import VerifyStep

__all__ = ["StepBuilder"]

_PLAYBOOK_SECONDS = 1800.0


@dataclass(frozen=True)
class StepBuilder:
    """Builds the steps of one cluster."""

    settings: Settings
    cluster: Cluster
    tools: Tools
    health_before: HealthBefore | None = None
    """The cluster before the run; None where nothing is known of it."""
    memory: GateMemory = field(default_factory=GateMemory)

    @property
    def gates(self) -> GateCatalog:
        """The gates of this cluster."""
        kube, settings = self._shared(self.memory.reads), self.settings
        spare = settings.unhealthy_workers
        return GateCatalog(kube, self.tools.clock, self.cluster, settings.gates, self.health_before, spare, self.memory)

    def _shared(self, memory: ReadMemory) -> SharedReads:
        return SharedReads(self.tools.kube, self.tools.clock, memory, self.settings.shortest_interval_seconds)

    @property
    def nodes(self) -> NodesBuilder | None:
        """Builds the steps of nodes; None where upgrader.yaml has no `nodes`."""
        settings = self.settings
        if settings.nodes is None:
            return None
        patience = settings.recovery.patience_seconds
        return NodesBuilder(settings.nodes, self.cluster, self.tools, self.gates, patience)

    @property
    def etcd(self) -> EtcdBuilder:
        """Builds the step of etcd's members."""
        return EtcdBuilder(self.settings.etcd, self.cluster, self.tools, self.gates)

    @property
    def pools(self) -> NodesBuilder:
        """The same, where steps of nodes are known to be wanted."""
        assert self.nodes is not None, "only the section `nodes` makes such steps"
        return self.nodes

    def approved(self, planned: PlannedStep, built: PipelineStep) -> PipelineStep:
        """The same step, which waits for an approval if upgrader.yaml has one before it, and it changes anything."""
        seconds = self.settings.approvals.get(planned.name)
        return replace(built, approval_seconds=seconds) if built.changes else built

    def further_gates(self, step: PlannedStep) -> tuple[GateRun, ...]:
        """The gates of upgrader.yaml behind a planned step, in addition to its own."""
        gates = self._of_file(step.name)
        workloads = (self.gates.of_workload(gate) for gate in gates if isinstance(gate, WorkloadGate))
        metrics = [gate for gate in gates if isinstance(gate, MetricGateSettings)]
        if _disturbs(step):
            metrics += self.settings.metric_gates
        return (*workloads, *map(self._metric, metrics))

    def _of_file(self, step: str) -> tuple[StepGate, ...]:
        item = next((item for item in self.settings.pipeline if item.name == step), None)
        return item.gates if item else ()

    def _way_back(self, step: str) -> tuple[GateRun, ...]:
        """Those of them that a rollback waits for, too: others than Helm replace these pods, and Helm knows nothing."""
        gates = (gate for gate in self._of_file(step) if isinstance(gate, WorkloadGate) and gate.kind in OF_GUARD)
        return tuple(map(self.gates.of_workload, gates))

    def _groups(self, step: str) -> frozenset[str]:
        """The rollout groups that gates of upgrader.yaml wait for behind a step: held still, they would never pass."""
        gates = (gate for gate in self._of_file(step) if isinstance(gate, WorkloadGate) and gate.kind == "rolloutGroup")
        return frozenset(f"{gate.namespace}/{gate.name}" for gate in gates)

    def _metric(self, gate: MetricGateSettings) -> GateRun:
        assert self.tools.prometheus is not None, "a file with metric gates and without a Prometheus is refused"
        return self.gates.of_metric(self.tools.prometheus, gate)

    def helm_seconds(self, *manifests: str) -> float:
        """Helm's timeout for a release: as configured, or longer where a DaemonSet needs it for all nodes."""
        controllers = len(self.cluster.controllers)
        workers = self.health_before.workers if self.health_before else self.cluster.workers
        nodes = controllers + len(workers)
        needed = [rollout_seconds(manifest, controllers=controllers, nodes=nodes) for manifest in manifests]
        return max([self.settings.helm_timeout_seconds, *needed])

    def planned(
        self, step: PlannedStep, plan: Plan, extra: tuple[GateRun, ...], wrap: Callable[[ChartStep], Step]
    ) -> PipelineStep:
        """The step of a planned one. `extra` are gates beside its own; `wrap` wraps a chart's step."""
        if isinstance(step, PlannedPlaybook):
            return self._playbook(step, extra)
        if isinstance(step, PlannedNodes):
            pool = self.pools.forward(step)
            return replace(pool, gates=pool.gates + extra)
        if isinstance(step, PlannedSurge):
            return self.pools.surges.forward(step)
        if isinstance(step, PlannedEtcd):
            etcd = self.etcd.forward(step)
            return replace(etcd, gates=etcd.gates + extra)
        if isinstance(step, PlannedKubeadmConfig):
            return self._kubeadm_config(step)
        if isinstance(step, PlannedKubeletConfig):
            return self._kubelet_config(step)
        gates = with_own_policy(self._release_gates(step.spec, step.after, plan.target), extra)
        undo_gates = self._undo_gates(step.spec, step.before, plan.current)
        groups = groups_in(step.spec.namespace, step.before, step.after) | self._groups(step.name)
        if step.action == "unchanged":
            return PipelineStep(VerifyStep(step.name), gates, undo_gates, changes=False, groups=groups)
        seconds = self.helm_seconds(step.before, step.after)
        chart = self._chart(step.spec, step.summary, step.after, seconds)
        return PipelineStep(
            wrap(chart),
            gates,
            undo_gates,
            self._inspector(step.spec, seconds),
            watched=lambda check: wrap(chart.watched(check)),
            undo_watched=lambda check: wrap(chart.undo_watched(check)),
            groups=groups,
        )

    def undo(
        self, step: StepState, current: KubernetesVersion | None, target: KubernetesVersion | None
    ) -> PipelineStep:
        """What undoes a step of a journal, from the versions `current` to `target`. Raises UsageError for a step that
        upgrader.yaml doesn't name.
        """
        point = step.restore_point
        assert point is not None
        if point.nodes:
            return self._undo_nodes(step, target or self.settings.target)
        if point.surge:
            pool = check_named_surge(step, self.settings.nodes)
            return self.pools.surges.undo(pool, target or self.settings.target)
        if point.etcd:
            return self.etcd.undo(step)
        if step.name == KUBEADM_CONFIG and point.kubeadm is not None:
            return self._kubeadm_config(PlannedKubeadmConfig(point.kubeadm, target or self.settings.target))
        if step.name == KUBELET_CONFIG and point.kubelet:
            return self._undo_kubelet_config()
        item = check_named(step, self.settings.pipeline)
        if isinstance(item, PlaybookSettings):
            return self._playbook(PlannedPlaybook(item.playbook, item.undo), ())
        spec = ReleaseSpec(point.release, point.namespace, Path())
        before = self.manifest(point)
        seconds, undo_gates = self.helm_seconds(before), self._undo_gates(spec, before, current)
        chart = self._chart(spec, step.summary, "", seconds)
        return PipelineStep(
            chart,
            (),
            undo_gates,
            self._inspector(spec, seconds),
            undo_watched=chart.undo_watched,
            groups=groups_in(spec.namespace, before) | self._groups(step.name),
        )

    def free(self, step: PlannedRelease, plan: Plan) -> PipelineStep:
        """Free a release, with the gates of the revision that it rolls back to."""
        spec, tools, timeout = step.spec, self.tools, self.helm_seconds(step.before, step.after)
        free = FreeReleaseStep(spec.name, spec.namespace, tools.helm, tools.clock, timeout)
        return PipelineStep(
            free,
            self._release_gates(spec, step.before, plan.current),
            (),
            self._inspector(spec, timeout),
            groups=groups_in(spec.namespace, step.before),
        )

    def _undo_nodes(self, step: StepState, target: KubernetesVersion) -> PipelineStep:
        if self.nodes is None:
            raise UsageError(
                f"the run's journal restores nodes in step {step.name!r}, and upgrader.yaml has no section `nodes`",
                remedy="Restore the section, and repeat this.",
            )
        return self.nodes.undo(step, target)

    def _chart(self, spec: ReleaseSpec, change: str, after: str, timeout_seconds: float) -> ChartStep:
        """`after` is the manifest whose workloads are watched while Helm waits for them."""
        clock, patience, gates = self.tools.clock, self.settings.recovery.patience_seconds, self.gates
        pace = gates.paced
        # What is read beside Helm may be from before its last change: no gate behind the step gets that for an answer.
        beside = self._shared(ReadMemory())
        return ChartStep(
            spec=spec,
            change=change,
            helm=self.tools.helm,
            timeout_seconds=timeout_seconds,
            watcher=lambda: watch_workloads(
                beside,
                after,
                clock=clock,
                namespace=spec.namespace,
                absence=ApiAbsence(beside, clock, patience, pace.rest_seconds),
                glance=gates.health.glance,
                every_seconds=pace.interval_seconds,
                rest_seconds=pace.rest_seconds,
            ),
        )

    def _playbook(self, planned: PlannedPlaybook, extra: tuple[GateRun, ...]) -> PipelineStep:
        markers = PlaybookMarkers(self.tools.hosts, self.cluster.controllers, planned.playbook)
        step = PlaybookStep(
            planned.playbook,
            self.cluster.inventory,
            self.tools.playbooks,
            _PLAYBOOK_SECONDS,
            markers,
            undo_playbook=planned.undo,
        )
        gates = self.gates.of_cluster() + extra
        undo_gates = self.gates.of_controllers() + self._way_back(planned.name)
        inspector, groups = PlaybookInspector(markers), self._groups(planned.name)
        return PipelineStep(step, gates, undo_gates, inspector, groups=groups)

    def _kubeadm_config(self, planned: PlannedKubeadmConfig) -> PipelineStep:
        gate = self.gates.of_kubeadm(planned.after)
        if planned.action == "unchanged":
            return PipelineStep(VerifyStep(planned.name), (gate,), (), changes=False)
        step = KubeadmConfigStep(self.tools.kube, self.tools.clock, planned.before, planned.after)
        return PipelineStep(step, (gate,), ())

    def _kubelet_config(self, planned: PlannedKubeletConfig) -> PipelineStep:
        gate = self.gates.of_kubelet_config(planned.fields)
        if planned.action == "unchanged":
            return PipelineStep(VerifyStep(planned.name), (gate,), (), changes=False)
        return PipelineStep(KubeletConfigStep(self.tools.kube, self.tools.clock, planned.fields), (gate,), ())

    def _undo_kubelet_config(self) -> PipelineStep:
        return PipelineStep(KubeletConfigStep(self.tools.kube, self.tools.clock, {}), (), ())

    def _inspector(self, spec: ReleaseSpec, timeout_seconds: float) -> ReleaseInspector:
        return ReleaseInspector(spec, self.tools.helm, self.tools.clock, timeout_seconds)

    def _release_gates(self, spec: ReleaseSpec, manifest: str, target: KubernetesVersion | None) -> tuple[GateRun, ...]:
        return self.gates.of_release(spec.name, manifest, namespace=spec.namespace, target=target)

    def _undo_gates(self, spec: ReleaseSpec, manifest: str, target: KubernetesVersion | None) -> tuple[GateRun, ...]:
        own = self.gates.of_undo(spec.name, manifest, namespace=spec.namespace, target=target)
        # Of a release that wasn't installed before, there may be nothing to wait for.
        return with_own_policy(own, self._way_back(spec.name)) if manifest else own

    def manifest(self, point: RestorePoint) -> str:
        """What the release was before; "" when it was not installed."""
        if point.revision is None:
            return ""
        return self.tools.helm.manifest(point.release, point.namespace, point.revision)


def _disturbs(step: PlannedStep) -> bool:
    """Whether it may change what metrics say: a change of kubeadm's ConfigMaps doesn't."""
    if isinstance(step, PlannedPlaybook):
        return True
    return isinstance(step, PlannedRelease | PlannedNodes | PlannedEtcd) and step.action != "unchanged"
