"""Builds every pipeline of releases and playbooks: forward from a plan, backward from a journal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from upgrader.backup.step import BackupStep, takes_backup
from upgrader.backup.take import BackupTaker
from upgrader.engine.history.named_changes import check_named
from upgrader.engine.state.run_state import RunState, StepState
from upgrader.errors import UsageError
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.bake_gate import BAKE
from upgrader.gates.gate_memory import GateMemory
from upgrader.gates.release_gates import GateCatalog
from upgrader.gates.workload_watcher import watch_workloads
from upgrader.model.api_lifecycle import Minor
from upgrader.model.cluster import Cluster
from upgrader.model.health_before import HealthBefore
from upgrader.model.observed import Observed
from upgrader.model.plan import Plan, PlannedNodes, PlannedPlaybook, PlannedRelease, PlannedStep
from upgrader.model.release import ReleaseSpec, RestorePoint
from upgrader.model.rollout_time import rollout_seconds
from upgrader.model.settings import PlaybookSettings, Settings
from upgrader.model.version import KUBELET_MINORS, KubernetesVersion
from upgrader.nodes_builder import NodesBuilder
from upgrader.pipeline import GateRun, Pipeline, PipelineStep, Step
from upgrader.planner import IntendedStep, plan_run
from upgrader.ports import Tools
from upgrader.steps.bake import BakeStep
from upgrader.steps.free_release import FreeReleaseStep
from upgrader.steps.helm_release import ChartStep
from upgrader.steps.import_images import ImageSource, ImportImagesStep
from upgrader.steps.playbook import PlaybookStep
from upgrader.steps.playbook_markers import PlaybookInspector, PlaybookMarkers
from upgrader.steps.pull_images import PullImagesStep
from upgrader.steps.release_inspector import ReleaseInspector
from upgrader.steps.verify import VerifyStep

__all__ = ["PLAYBOOK_SECONDS", "PipelineBuilder"]

PLAYBOOK_SECONDS = 1800.0


@dataclass(frozen=True)
class PipelineBuilder:
    """Builds the steps and their gates for one cluster."""

    settings: Settings
    cluster: Cluster
    tools: Tools
    health_before: HealthBefore | None = None
    """The cluster before the run; None where nothing is known of it."""
    memory: GateMemory = field(default_factory=GateMemory)
    backup_taker: BackupTaker | None = None
    """None where a minor upgrade begins without a backup."""

    @property
    def gates(self) -> GateCatalog:
        """The gates of this cluster."""
        kube, clock, settings = self.tools.kube, self.tools.clock, self.settings
        spare = settings.unhealthy_workers
        return GateCatalog(kube, clock, self.cluster, settings.gates, self.health_before, spare, self.memory)

    def since(self, health_before: HealthBefore | None) -> PipelineBuilder:
        """The same for a run that began with this health."""
        return replace(self, health_before=health_before)

    def forward(self, plan: Plan, wrap: Mapping[str, Callable[[ChartStep], Step]] | None = None) -> Pipeline:
        """A step for each planned step; `wrap` wraps the chart's step of a release, by name."""
        extra = {item.name: tuple(map(self.gates.of_workload, item.gates)) for item in self.settings.pipeline}
        wraps = wrap or {}
        freed = [self._free(step, plan) for step in plan.steps if isinstance(step, PlannedRelease) and step.pending]
        steps = [
            self._planned(step, plan, extra.get(step.name, ()), wraps.get(step.name, _as_it_is)) for step in plan.steps
        ]
        has_nodes = any(isinstance(step, PlannedNodes) for step in plan.steps)
        staged = [self._nodes.stage(plan)] if has_nodes else []
        return Pipeline((*staged, *freed, *_gates_behind_the_first_change(steps)))

    def upgrade(
        self, plan: Plan, planned: Collection[str] | None = None, bundle: ImageSource | None = None
    ) -> Pipeline:
        """The same, behind the steps that prepare it, and with its bake.

        `bundle` is where images come from that a node lacks. `planned` are the names of a run's steps that is resumed:
        it keeps those that prepare it, whatever the settings say now.
        """
        return Pipeline((*self._preparations(plan, planned, bundle), *self.with_bake(self.forward(plan)).steps))

    def with_bake(self, pipeline: Pipeline) -> Pipeline:
        """The pipeline with a bake at its end, where the settings want one and something changes."""
        if not self.settings.bake_seconds or not any(item.changes for item in pipeline.steps):
            return pipeline
        step = BakeStep(BAKE, self.settings.bake_seconds)
        return Pipeline((*pipeline.steps, PipelineStep(step, pipeline.gates, ())))

    def helm_seconds(self, *manifests: str) -> float:
        """Helm's timeout for a release: as configured, or longer where a DaemonSet needs it for all nodes."""
        controllers = len(self.cluster.controllers)
        workers = self.health_before.workers if self.health_before else self.cluster.workers
        nodes = controllers + len(workers)
        needed = [rollout_seconds(manifest, controllers=controllers, nodes=nodes) for manifest in manifests]
        return max([self.settings.helm_timeout_seconds, *needed])

    def rollback(self, state: RunState) -> Pipeline:
        """The steps that are left to undo, each with the gates of its restore point.

        Built from the journal and Helm's own records: edited values or a removed chart don't matter. But what is undone
        must be named in upgrader.yaml: raises UsageError for anything else.
        """
        steps = (step for step in state.rollback_order if step.to_undo)
        return Pipeline(tuple(self._undo(step, state.current, state.target) for step in steps))

    def plan(
        self,
        intended: Sequence[IntendedStep],
        observed: Observed,
        emulated: Minor | None = None,
        then: KubernetesVersion | None = None,
    ) -> Plan:
        """What a run would change: the pipeline, and then the nodes, if upgrader.yaml has them upgraded.

        While the API server is to emulate an older minor, no kubelet gets ahead of that: the run may be undone later.
        `then`: the version of the next of several hops; nodes are drained before that only where it needs it.
        """
        target = self.settings.target
        plan = plan_run(intended, observed, target, emulated)
        due = then is None or any(then.minors_after(each) > KUBELET_MINORS for each in observed.kubelets.values())
        if self.nodes is None or emulated is not None or not due:
            return plan
        return replace(plan, steps=(*plan.steps, *self.nodes.plan(observed, target)))

    def replan(
        self, state: RunState, intended: Sequence[IntendedStep], observed: Observed, emulated: Minor | None = None
    ) -> Plan:
        """Plan a run again as at its start, if the pipeline is still the same.

        Steps that have begun are planned from their restore points. Raises HelmError when Helm no longer has such a
        revision.
        """
        now = self.plan(intended, observed, emulated)
        # A hop that left the nodes to a later one leaves them where it is resumed, too.
        meant = (step for step in now.steps if not isinstance(step, PlannedNodes) or step.name in state.planned)
        steps = tuple(self._as_planned(step, state) for step in meant)
        return replace(now, current=state.current or observed.server, steps=steps)

    def _as_planned(self, step: PlannedStep, state: RunState) -> PlannedStep:
        begun = state.step(step.name)
        if isinstance(step, PlannedPlaybook):
            return step
        if isinstance(step, PlannedNodes):
            return self._nodes.replan(step, begun)
        if begun is not None and begun.restore_point is not None:
            check_named(begun, self.settings.pipeline)
        step = replace(step, pending=FreeReleaseStep.name_for(step.name) in state.planned)
        if begun is None:
            return step
        if begun.restore_point is None:
            return replace(step, action="unchanged")
        before = self._manifest(begun.restore_point)
        return replace(step, action="upgrade" if before else "install", summary=begun.summary, before=before)

    def _preparations(
        self, plan: Plan, planned: Collection[str] | None, bundle: ImageSource | None
    ) -> Iterator[PipelineStep]:
        if self.backup_taker is not None and takes_backup(self.backup_taker, plan, planned):
            yield PipelineStep(BackupStep(self.backup_taker), (), (), changes=False, prepares=True)
        images = PullImagesStep.of(plan, self.tools.kube, self.tools.clock, self.settings.images)
        if images is None:
            return
        if planned is not None and ImportImagesStep.NAME in planned and bundle is None:
            # What it imported is there or not: the next step asks.
            yield PipelineStep(VerifyStep(ImportImagesStep.NAME), (), (), changes=False, prepares=True)
        elif bundle is not None and (planned is None or ImportImagesStep.NAME in planned):
            nodes = (*self.cluster.controllers, *self.cluster.workers)
            imports = ImportImagesStep(images.planned, bundle, self.tools.hosts, nodes, self.settings.images)
            yield PipelineStep(imports, (), (), changes=False, prepares=True)
        if self.settings.images.pull if planned is None else images.name in planned:
            yield PipelineStep(images, (), (), changes=False, prepares=True)

    def _planned(
        self, step: PlannedStep, plan: Plan, extra: tuple[GateRun, ...], wrap: Callable[[ChartStep], Step]
    ) -> PipelineStep:
        if isinstance(step, PlannedPlaybook):
            return self._playbook(step, extra)
        if isinstance(step, PlannedNodes):
            return self._nodes.forward(step)
        gates = self._release_gates(step.spec, step.after, plan.target) + extra
        undo_gates = self._undo_gates(step.spec, step.before, plan.current)
        if step.action == "unchanged":
            return PipelineStep(VerifyStep(step.name), gates, undo_gates, changes=False)
        seconds = self.helm_seconds(step.before, step.after)
        chart = self._chart(step.spec, step.summary, step.after, seconds)
        return PipelineStep(
            wrap(chart),
            gates,
            undo_gates,
            self._inspector(step.spec, seconds),
            watched=lambda check: wrap(chart.watched(check)),
            undo_watched=lambda check: wrap(chart.undo_watched(check)),
        )

    def _undo(
        self, step: StepState, current: KubernetesVersion | None, target: KubernetesVersion | None
    ) -> PipelineStep:
        point = step.restore_point
        assert point is not None
        if point.nodes:
            return self._undo_nodes(step, target or self.settings.target)
        item = check_named(step, self.settings.pipeline)
        if isinstance(item, PlaybookSettings):
            return self._playbook(PlannedPlaybook(item.playbook, item.undo), ())
        spec = ReleaseSpec(point.release, point.namespace, Path())
        before = self._manifest(point)
        seconds, undo_gates = self.helm_seconds(before), self._undo_gates(spec, before, current)
        chart = self._chart(spec, step.summary, "", seconds)
        return PipelineStep(chart, (), undo_gates, self._inspector(spec, seconds), undo_watched=chart.undo_watched)

    @property
    def nodes(self) -> NodesBuilder | None:
        """Builds the steps of nodes; None where upgrader.yaml has no `nodes`."""
        settings = self.settings
        if settings.nodes is None:
            return None
        patience = settings.recovery.patience_seconds
        return NodesBuilder(settings.nodes, self.cluster, self.tools, self.gates, patience)

    @property
    def _nodes(self) -> NodesBuilder:
        assert self.nodes is not None, "only the section `nodes` makes such steps"
        return self.nodes

    def _undo_nodes(self, step: StepState, target: KubernetesVersion) -> PipelineStep:
        if self.nodes is None:
            raise UsageError(
                f"the run's journal restores nodes in step {step.name!r}, and upgrader.yaml has no section `nodes`",
                remedy="Restore the section, and repeat this.",
            )
        return self.nodes.undo(step, target)

    def _free(self, step: PlannedRelease, plan: Plan) -> PipelineStep:
        """Free a release, with the gates of the revision that it rolls back to."""
        spec, tools, timeout = step.spec, self.tools, self.helm_seconds(step.before, step.after)
        free = FreeReleaseStep(spec.name, spec.namespace, tools.helm, tools.clock, timeout)
        return PipelineStep(
            free, self._release_gates(spec, step.before, plan.current), (), self._inspector(spec, timeout)
        )

    def _chart(self, spec: ReleaseSpec, change: str, after: str, timeout_seconds: float) -> ChartStep:
        """`after` is the manifest whose workloads are watched while Helm waits for them."""
        kube, clock, patience = self.tools.kube, self.tools.clock, self.settings.recovery.patience_seconds
        return ChartStep(
            spec=spec,
            change=change,
            helm=self.tools.helm,
            timeout_seconds=timeout_seconds,
            watcher=lambda: watch_workloads(
                kube,
                after,
                clock=clock,
                namespace=spec.namespace,
                absence=ApiAbsence(kube, clock, patience),
                glance=self.gates.health.glance,
            ),
        )

    def _playbook(self, planned: PlannedPlaybook, extra: tuple[GateRun, ...]) -> PipelineStep:
        markers = PlaybookMarkers(self.tools.hosts, self.cluster.controllers, planned.playbook)
        step = PlaybookStep(
            planned.playbook,
            self.cluster.inventory,
            self.tools.playbooks,
            PLAYBOOK_SECONDS,
            markers,
            undo_playbook=planned.undo,
        )
        gates = self.gates.of_cluster() + extra
        return PipelineStep(step, gates, self.gates.of_controllers(), PlaybookInspector(markers))

    def _inspector(self, spec: ReleaseSpec, timeout_seconds: float) -> ReleaseInspector:
        return ReleaseInspector(spec, self.tools.helm, self.tools.clock, timeout_seconds)

    def _release_gates(self, spec: ReleaseSpec, manifest: str, target: KubernetesVersion | None) -> tuple[GateRun, ...]:
        return self.gates.of_release(spec.name, manifest, namespace=spec.namespace, target=target)

    def _undo_gates(self, spec: ReleaseSpec, manifest: str, target: KubernetesVersion | None) -> tuple[GateRun, ...]:
        return self.gates.of_undo(spec.name, manifest, namespace=spec.namespace, target=target)

    def _manifest(self, point: RestorePoint) -> str:
        """What the release was before; "" when it was not installed."""
        if point.revision is None:
            return ""
        return self.tools.helm.manifest(point.release, point.namespace, point.revision)


def _as_it_is(chart: ChartStep) -> Step:
    return chart


def _gates_behind_the_first_change(steps: list[PipelineStep]) -> Iterator[PipelineStep]:
    """Move the gates of the steps before the first change behind that change.

    What is unhealthy before any change may be what the run is meant to fix: a kube-apiserver that crash-loops keeps
    the pod-checkpointer from being Ready. The preflight checks decide whether a run may begin.
    """
    first = next((index for index, item in enumerate(steps) if item.changes), 0)
    if first == 0:
        yield from steps
        return
    change = steps[first]
    moved: list[GateRun] = []
    for item in steps[:first]:
        moved += [gate for gate in item.gates if gate not in moved]
        yield PipelineStep(VerifyStep(item.step.name, change.step.name), (), (), changes=False)
    yield replace(change, gates=(*change.gates, *(gate for gate in moved if gate not in change.gates)))
    yield from steps[first + 1 :]
