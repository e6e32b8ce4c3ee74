"""Builds every pipeline of releases and playbooks: forward from a plan, backward from a journal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from upgrader.engine.history.named_changes import check_named
from upgrader.engine.state.run_state import RunState
from upgrader.gates.gate_memory import GateMemory
from upgrader.gates.release_gates import GateCatalog
from upgrader.model.api_lifecycle import Minor
from upgrader.model.cluster import Cluster
from upgrader.model.etcd_plan import PlannedEtcd, plan_etcd
from upgrader.model.health_before import HealthBefore
from upgrader.model.observed import Observed
from upgrader.model.own_steps import BAKE, KUBEADM_CONFIG, KUBELET_CONFIG
from upgrader.model.plan import (
    OwnStep,
    Plan,
    PlannedKubeadmConfig,
    PlannedKubeletConfig,
    PlannedNodes,
    PlannedPlaybook,
    PlannedRelease,
    PlannedStep,
    PlannedSurge,
)
from upgrader.model.settings import Settings
from upgrader.model.skips import NO_SKIPS, Skips
from upgrader.model.version import KUBELET_MINORS, KubernetesVersion
from upgrader.pipeline import GateRun, Pipeline, PipelineStep, Step
from upgrader.ports import Tools
from upgrader.steps.backup.take import BackupTaker
from upgrader.steps.bake import BakeStep
from upgrader.steps.images.import_images import ImageSource
from upgrader.steps.planner import IntendedStep, plan_kubeadm_config, plan_run
from upgrader.steps.preparing_steps import PreparingSteps
from upgrader.steps.release.free_release import FreeReleaseStep
from upgrader.steps.release.helm_release import ChartStep
from upgrader.steps.step_builder import StepBuilder
from upgrader.steps.verify import VerifyStep

__all__ = ["PipelineBuilder", "with_every_step"]


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
        return self.steps.gates

    @property
    def steps(self) -> StepBuilder:
        """Builds single steps."""
        return StepBuilder(self.settings, self.cluster, self.tools, self.health_before, self.memory)

    def since(self, health_before: HealthBefore | None) -> PipelineBuilder:
        """The same for a run that began with this health."""
        return replace(self, health_before=health_before)

    def forward(self, plan: Plan, wrap: Mapping[str, Callable[[ChartStep], Step]] | None = None) -> Pipeline:
        """A step for each planned step; `wrap` wraps the chart's step of a release, by name."""
        build, wraps = self.steps, wrap or {}
        stuck = [step for step in plan.steps if isinstance(step, PlannedRelease) and step.pending]
        freed = [build.approved(step, build.free(step, plan)) for step in stuck]
        steps = [
            build.approved(step, build.planned(step, plan, build.further_gates(step), wraps.get(step.name, _as_it_is)))
            for step in plan.steps
        ]
        has_nodes = any(isinstance(step, PlannedNodes) for step in plan.steps)
        staged = [build.pools.stage(plan)] if has_nodes else []
        return Pipeline((*staged, *freed, *_gates_behind_the_first_change(steps)))

    def upgrade(
        self,
        plan: Plan,
        planned: Collection[str] | None = None,
        bundle: ImageSource | None = None,
        skips: Skips = NO_SKIPS,
    ) -> Pipeline:
        """The same, behind the steps that prepare it, and with its bake.

        `bundle` is where images come from that a node lacks. `planned` are the names of a run's steps that is resumed:
        it keeps those that prepare it, whatever the settings say now. `skips` are what the run is to start in spite of.
        """
        return Pipeline((*self.preparing.of(plan, planned, bundle, skips), *self.with_bake(self.forward(plan)).steps))

    @property
    def preparing(self) -> PreparingSteps:
        """Builds the steps before the first change."""
        return PreparingSteps(self.settings, self.cluster, self.tools, self.backup_taker)

    def with_bake(self, pipeline: Pipeline) -> Pipeline:
        """The pipeline with a bake at its end, where the settings want one and something changes."""
        if not self.settings.bake_seconds or not any(item.changes for item in pipeline.steps):
            return pipeline
        step = BakeStep(BAKE, self.settings.bake_seconds)
        # Who writes kubeadm's record back, such as GitOps, makes nothing unhealthy that runs.
        gates = tuple(run for run in pipeline.gates if run.gate.name not in (KUBEADM_CONFIG, KUBELET_CONFIG))
        return Pipeline((*pipeline.steps, PipelineStep(step, gates, ())))

    def rollback(self, state: RunState) -> Pipeline:
        """The steps that are left to undo, each with the gates of its restore point.

        Built from the journal and Helm's own records: edited values or a removed chart don't matter. But what is undone
        must be named in upgrader.yaml: raises UsageError for anything else.
        """
        steps = (step for step in state.rollback_order if step.to_undo)
        return Pipeline(tuple(self.steps.undo(step, state.current, state.target) for step in steps))

    def plan(
        self,
        intended: Sequence[IntendedStep],
        observed: Observed,
        emulated: Minor | None = None,
        then: KubernetesVersion | None = None,
    ) -> Plan:
        """What a run would change: the pipeline, what kubeadm believes, and then the nodes, if upgrader.yaml has them
        upgraded.

        While the API server is to emulate an older minor, no kubelet gets ahead of that: the run may be undone later.
        `then`: the version of the next of several hops; nodes are drained before that only where it needs it.
        """
        target = self.settings.target
        plan = plan_run(intended, observed, target, emulated)
        # First, as kubeadm has it: a new kube-apiserver may want a newer etcd, and an old one works with it.
        plan = replace(plan, steps=(*plan_etcd(self.settings.etcd, observed), *plan.steps))
        # Before the nodes: `kubeadm upgrade node` on one of them goes by it.
        plan = replace(plan, steps=(*plan.steps, *plan_kubeadm_config(plan, observed)))
        due = then is None or any(then.minors_after(each) > KUBELET_MINORS for each in observed.kubelets.values())
        nodes = self.steps.nodes
        if nodes is None or emulated is not None or not due:
            return plan
        return replace(plan, steps=(*plan.steps, *nodes.plan(observed, target)))

    def replan(
        self, state: RunState, intended: Sequence[IntendedStep], observed: Observed, emulated: Minor | None = None
    ) -> Plan:
        """Plan a run again as at its start, if the pipeline is still the same.

        Steps that have begun are planned from their restore points. Raises HelmError when Helm no longer has such a
        revision.
        """
        now = self.plan(intended, observed, emulated)
        # A hop that left the nodes to a later one leaves them where it is resumed, too; and a run keeps its steps.
        own = (PlannedNodes, PlannedSurge, PlannedEtcd, PlannedKubeadmConfig, PlannedKubeletConfig)
        steps_now = self._with_kubelet_config(self._with_kubeadm_config(now.steps, state, observed), state)
        meant = (step for step in steps_now if not isinstance(step, own) or step.name in state.planned)
        steps = tuple(self._as_planned(step, state) for step in meant)
        return replace(now, current=state.current or observed.server, steps=steps)

    def _with_kubeadm_config(
        self, steps: tuple[PlannedStep, ...], state: RunState, observed: Observed
    ) -> tuple[PlannedStep, ...]:
        """With the step that the run has, even where the ConfigMap is gone or unreadable by now: where it hasn't passed
        yet, it fails and says so; where it has, the run goes on.
        """
        if KUBEADM_CONFIG not in state.planned or any(step.name == KUBEADM_CONFIG for step in steps):
            return steps
        kept = PlannedKubeadmConfig(state.current or observed.server, self.settings.target)
        first = next((index for index, step in enumerate(steps) if isinstance(step, PlannedNodes)), len(steps))
        return (*steps[:first], kept, *steps[first:])

    def _with_kubelet_config(self, steps: tuple[PlannedStep, ...], state: RunState) -> tuple[PlannedStep, ...]:
        """The same of the ConfigMap of the kubelets."""
        nodes = self.settings.nodes
        if KUBELET_CONFIG not in state.planned or any(step.name == KUBELET_CONFIG for step in steps) or nodes is None:
            return steps
        fields = nodes.configuration.kubelet
        return (*steps, PlannedKubeletConfig(fields, tuple(fields)))

    def _as_planned(self, step: PlannedStep, state: RunState) -> PlannedStep:
        begun = state.step(step.name)
        if isinstance(step, PlannedPlaybook):
            return step
        if isinstance(step, PlannedNodes):
            return self.steps.pools.replan(step, begun)
        if isinstance(step, PlannedSurge):
            return self.steps.pools.surges.replan(step, state)
        if isinstance(step, PlannedEtcd):
            return self.steps.etcd.replan(step, begun)
        if isinstance(step, PlannedKubeadmConfig):
            if begun is None:
                return step
            point = begun.restore_point
            # Without one, it has nothing to undo, and so must not write.
            return replace(step, before=point.kubeadm if point and point.kubeadm else step.after)
        if isinstance(step, PlannedKubeletConfig):
            # As above. With one, the annotation has the text to go back to, whatever the fields are now.
            point = begun.restore_point if begun else None
            return step if begun is None else replace(step, lacking=tuple(step.fields) if point else ())
        if begun is not None and begun.restore_point is not None:
            check_named(begun, self.settings.pipeline)
        step = replace(step, pending=FreeReleaseStep.name_for(step.name) in state.planned)
        if begun is None:
            return step
        if begun.restore_point is None:
            return replace(step, action="unchanged")
        before = self.steps.manifest(begun.restore_point)
        return replace(step, action="upgrade" if before else "install", summary=begun.summary, before=before)


def with_every_step(plan: Plan, pipeline: Pipeline) -> Plan:
    """The plan, with the steps of its pipeline that upgrader.yaml doesn't have: what is shown is what is run."""
    names = [item.step.name for item in pipeline.steps]
    planned = {step.name for step in plan.steps}
    first = next((number for number, name in enumerate(names) if name in planned), len(names))
    before = tuple(
        OwnStep(item.step.name, "free" if item.changes else "preparation", item.step.summary())
        for item in pipeline.steps[:first]
    )
    after = tuple(
        OwnStep(item.step.name, "bake", item.step.summary())
        for item in pipeline.steps[first:]
        if item.step.name not in planned
    )
    return replace(plan, before=before, after=after)


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
    groups = change.groups.union(*(item.groups for item in steps[:first]))
    yield replace(change, gates=(*change.gates, *(gate for gate in moved if gate not in change.gates)), groups=groups)
    yield from steps[first + 1 :]
