"""Plans a run and builds its pipeline, forward from a plan and backward from a journal: of all kinds of step."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from upgrader.engine.state.run_state import RunState, StepState
from upgrader.gates.gate_catalog import GateCatalog
from upgrader.gates.gate_memory import GateMemory
from upgrader.model.api_lifecycle import Minor
from upgrader.model.cluster import Cluster
from upgrader.model.health_before import HealthBefore
from upgrader.model.observed import Observed
from upgrader.model.settings import Settings
from upgrader.model.skips import NO_SKIPS, Skips
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import GateRun, Pipeline, PipelineStep
from upgrader.ports import Age, Tools
from upgrader.steps.context import ImageSource, StepContext
from upgrader.steps.intended import IntendedStep, plan_run
from upgrader.steps.plan import OwnStep, Plan
from upgrader.steps.planned import PlannedStep
from upgrader.steps.registry import OWN_KINDS, PLANNED_KINDS
from upgrader.steps.step_kind import OwnKind, PlannedKind, RunStart, Undoing
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
    age: Age | None = None
    """What encrypts backups; None where a minor upgrade begins without one."""

    @property
    def context(self) -> StepContext:
        """What each kind builds its steps from."""
        return StepContext(self.settings, self.cluster, self.tools, self.health_before, self.memory, self.age)

    @property
    def gates(self) -> GateCatalog:
        """The gates of this cluster."""
        return self.context.gates

    def since(self, health_before: HealthBefore | None) -> PipelineBuilder:
        """The same for a run that began with this health."""
        return replace(self, health_before=health_before)

    @cached_property
    def _kinds(self) -> Mapping[str, PlannedKind[Any]]:
        return {kind.name: kind(self.context) for kind in PLANNED_KINDS}

    @property
    def _own(self) -> tuple[OwnKind, ...]:
        return tuple(kind(self.context) for kind in OWN_KINDS)

    def forward(self, plan: Plan, *instead: PlannedKind[Any]) -> Pipeline:
        """A step for each planned step, behind what its kind has before the first one.

        `instead`: kinds that build their steps in the place of those of the same name.
        """
        kinds = {**self._kinds, **{kind.name: kind for kind in instead}}
        before = [step for kind in kinds.values() for step in kind.before(plan)]
        steps = [self.context.approved(step, kinds[step.kind].forward(step, plan)) for step in plan.steps]
        # What changes nothing comes first: what it finds wrong leaves everything as it is.
        return Pipeline((*sorted(before, key=lambda item: item.changes), *_gates_behind_the_first_change(steps)))

    def upgrade(
        self,
        plan: Plan,
        planned: Collection[str] | None = None,
        bundle: ImageSource | None = None,
        skips: Skips = NO_SKIPS,
    ) -> Pipeline:
        """The same, behind the steps that prepare it, and with its bake.

        `bundle` is where images come from that a node lacks. `planned` are the names of a run's steps that is resumed:
        it keeps those that prepare it, whatever the settings say now. `skips` are the findings that the run skips.
        """
        start = RunStart(planned, bundle, skips)
        before = (step for kind in self._own for step in kind.before(plan, start))
        return Pipeline((*before, *self.with_bake(self.forward(plan)).steps))

    def with_bake(self, pipeline: Pipeline) -> Pipeline:
        """The pipeline with a bake at its end, where the settings want one and something changes."""
        return Pipeline((*pipeline.steps, *(step for kind in self._own for step in kind.behind(pipeline))))

    def rollback(self, state: RunState) -> Pipeline:
        """The steps that are left to undo, each with the gates of its restore point.

        Built from the journal and Helm's own records: edited values or a removed chart don't matter. But what is undone
        must be named in upgrader.yaml: raises UsageError for anything else.
        """
        steps = (step for step in state.rollback_order if step.to_undo)
        return Pipeline(tuple(self.undo(step, state.current, state.target) for step in steps))

    def undo(
        self, step: StepState, current: KubernetesVersion | None, target: KubernetesVersion | None
    ) -> PipelineStep:
        """What undoes a step of a journal, from the versions `current` to `target`. Raises UsageError for a step that
        upgrader.yaml doesn't name.
        """
        point = step.restore_point
        assert point is not None, "there is something to undo"
        # The pipeline's steps are what no other kind knows as its own.
        kinds = sorted(self._kinds.values(), key=lambda kind: kind.in_pipeline)
        kind = next(kind for kind in kinds if kind.undoes(step, point))
        return kind.undo(Undoing(step, point, current, target or self.settings.target))

    def plan(
        self,
        intended: Sequence[IntendedStep],
        observed: Observed,
        emulated: Minor | None = None,
        then: KubernetesVersion | None = None,
    ) -> Plan:
        """What a run would change: the pipeline, and what each kind has to add.

        `emulated` is the minor that the components emulate in `intended`. `then`: the version of the next of several
        hops; None: there is none.
        """
        plan = plan_run(intended, observed, self.settings.target, emulated)
        for kind in self._kinds.values():
            plan = replace(plan, steps=kind.plan(plan, observed, then))
        return plan

    def replan(
        self, state: RunState, intended: Sequence[IntendedStep], observed: Observed, emulated: Minor | None = None
    ) -> Plan:
        """Plan a run again as at its start, if the pipeline is still the same.

        Steps that have begun are planned from their restore points. Raises HelmError when Helm no longer has such a
        revision.
        """
        now = self.plan(intended, observed, emulated)
        # A hop that left the nodes to a later one leaves them where it is resumed, too; and a run keeps its steps.
        meant = tuple(step for step in now.steps if self._kinds[step.kind].in_pipeline or step.name in state.planned)
        for kind in self._kinds.values():
            kept = kind.kept(state, observed)
            if kept is not None and kept.name in state.planned and all(step.name != kept.name for step in meant):
                meant = self._with(meant, kept)
        steps = tuple(self._kinds[step.kind].replan(step, state) for step in meant)
        return replace(now, current=state.current or observed.server, steps=steps)

    def _with(self, steps: tuple[PlannedStep, ...], kept: PlannedStep) -> tuple[PlannedStep, ...]:
        """The steps with one more, before those of the kinds that come after its own."""
        order = list(self._kinds)
        later = order[order.index(kept.kind) + 1 :]
        first = next((index for index, step in enumerate(steps) if step.kind in later), len(steps))
        return (*steps[:first], kept, *steps[first:])


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
