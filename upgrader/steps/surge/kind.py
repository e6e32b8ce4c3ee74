"""A pool's surge: nodes are added before its upgrade, and removed afterwards."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from upgrader.engine.state.run_state import RunState, StepState
from upgrader.errors import UsageError
from upgrader.gates.node_return import NodeReturn
from upgrader.model.node_settings import NodePool
from upgrader.model.observed import Observed
from upgrader.model.release import RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import PipelineStep
from upgrader.steps.nodes.cordon import Cordons
from upgrader.steps.nodes.drain import Drain
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.plan import Plan
from upgrader.steps.planned import PlannedStep
from upgrader.steps.step_kind import PlannedKind, Undoing
from upgrader.steps.surge.plan import PlannedSurge, surge_steps
from upgrader.steps.surge.step import AddSurgeStep, RemoveSurgeStep
from upgrader.steps.surge.surge_nodes import SurgeNodes
from upgrader.steps.surge.surge_removal import SurgeRemoval

__all__ = ["SurgeKind"]


@dataclass(frozen=True)
class SurgeKind(PlannedKind[PlannedSurge]):
    """Builds both steps of each surge."""

    name: ClassVar = PlannedSurge.kind

    def plan(self, plan: Plan, observed: Observed, then: KubernetesVersion | None) -> tuple[PlannedStep, ...]:
        """Around the step of each pool that has one."""
        return tuple(self._around(plan.steps, observed))

    def _around(self, steps: tuple[PlannedStep, ...], observed: Observed) -> Iterator[PlannedStep]:
        for step in steps:
            pair = surge_steps(step, observed.nodes, self._listed) if isinstance(step, PlannedNodes) else ()
            yield from pair[:1]
            yield step
            yield from pair[1:]

    def replan(self, planned: PlannedSurge, state: RunState) -> PlannedSurge:
        """Needed where it was when the run began: what was added is removed, whatever is left to do."""
        begun = state.step(planned.pool.surge_steps[0])
        if begun is None:
            return planned
        added = begun.restore_point is not None
        return replace(planned, needed=added or (planned.end and bool(planned.there)))

    def forward(self, planned: PlannedSurge, plan: Plan) -> PipelineStep:
        """The step, with the gates of the cluster."""
        if not planned.needed:
            return self.context.verified(planned)
        step = RemoveSurgeStep(planned, self._removal(planned)) if planned.end else self._add(planned)
        gates = self.context.gates
        return PipelineStep(step, gates.of_cluster(), gates.of_controllers(), watched=step.watched)

    def undoes(self, step: StepState, point: RestorePoint) -> bool:
        """One that names a pool's surge."""
        return bool(point.surge)

    def undo(self, undoing: Undoing) -> PipelineStep:
        """What removes a pool's surge nodes in a rollback."""
        pool = self._pool(undoing.step)
        step = self._add(PlannedSurge(pool, end=False, target=undoing.target, needed=True))
        return PipelineStep(step, (), self.context.gates.of_controllers(), undo_watched=step.watched)

    def _pool(self, step: StepState) -> NodePool:
        """The pool whose surge nodes a journal's step removes. Raises UsageError where upgrader.yaml has none."""
        nodes = self.context.settings.nodes
        pools = nodes.pools if nodes is not None else ()
        pool = next((item for item in pools if item.surge is not None and item.surge_steps[0] == step.name), None)
        if pool is None:
            raise UsageError(
                f"according to the run's journal, step {step.name!r} removes surge nodes, but no pool in "
                "upgrader.yaml has that `surge`",
                remedy="Restore `surge` of that pool in upgrader.yaml, and run the same command again.",
            )
        return pool

    @property
    def _listed(self) -> Collection[str]:
        cluster = self.context.cluster
        return {host.name for host in (*cluster.controllers, *cluster.workers)}

    @property
    def _watch(self) -> NodeReturn:
        before = self.context.health_before
        return NodeReturn(self.context.tools.kube, before.unready if before else ())

    def _add(self, planned: PlannedSurge) -> AddSurgeStep:
        removal = self._removal(planned)
        return AddSurgeStep(planned, removal.nodes, removal, self._watch)

    def _removal(self, planned: PlannedSurge) -> SurgeRemoval:
        tools = self.context.tools
        kube, clock, inventory = tools.kube, tools.clock, self.context.cluster.inventory
        nodes = SurgeNodes(planned, kube, clock, tools.playbooks, inventory, self._listed)
        # No controller is a surge node.
        drain = Drain(kube, clock, planned.pool.drain, (), self._watch.problem, check=lambda: None)
        return SurgeRemoval(nodes, Cordons(kube, clock), drain)
