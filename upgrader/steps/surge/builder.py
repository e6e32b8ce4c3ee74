"""Builds the steps that add nodes to a pool before its upgrade, and remove them afterwards."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from upgrader.engine.state.run_state import RunState
from upgrader.gates.node_return import NodeReturn
from upgrader.gates.release_gates import GateCatalog
from upgrader.model.cluster import Cluster
from upgrader.model.node_settings import NodePool
from upgrader.model.observed import Observed
from upgrader.model.plan import PlannedNodes, PlannedStep, PlannedSurge
from upgrader.model.planned_surge import surge_steps
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import PipelineStep
from upgrader.ports import Tools
from upgrader.steps.nodes.cordon import Cordons
from upgrader.steps.nodes.drain import Drain
from upgrader.steps.surge.step import AddSurgeStep, RemoveSurgeStep
from upgrader.steps.surge.surge_nodes import SurgeNodes
from upgrader.steps.surge.surge_removal import SurgeRemoval
from upgrader.steps.verify import VerifyStep

__all__ = ["SurgeBuilder"]


@dataclass(frozen=True)
class SurgeBuilder:
    """Builds the surges of one cluster's pools."""

    cluster: Cluster
    tools: Tools
    gates: GateCatalog

    def around(self, planned: PlannedNodes, observed: Observed) -> tuple[PlannedStep, ...]:
        """The step of a pool, between those of its surge, if it has one."""
        first, last = surge_steps(
            planned.pool,
            upgraded=bool(planned.nodes),
            target=planned.target,
            nodes=observed.nodes,
            listed=self._listed,
        ) or (None, None)
        return tuple(step for step in (first, planned, last) if step is not None)

    def replan(self, planned: PlannedSurge, state: RunState) -> PlannedSurge:
        """The same step, needed where it was when the run began: what was added is removed, whatever is left to do."""
        begun = state.step(planned.pool.surge_steps[0])
        if begun is None:
            return planned
        added = begun.restore_point is not None
        return replace(planned, needed=added or (planned.end and bool(planned.there)))

    def forward(self, planned: PlannedSurge) -> PipelineStep:
        """The step, with the gates of the cluster."""
        if not planned.needed:
            return PipelineStep(VerifyStep(planned.name), self.gates.of_cluster(), (), changes=False)
        step = RemoveSurgeStep(planned, self._removal(planned)) if planned.end else self._add(planned)
        return PipelineStep(step, self.gates.of_cluster(), self.gates.of_controllers(), watched=step.watched)

    def undo(self, pool: NodePool, target: KubernetesVersion) -> PipelineStep:
        """What removes a pool's surge nodes on the way back from `target`."""
        step = self._add(PlannedSurge(pool, end=False, target=target, needed=True))
        return PipelineStep(step, (), self.gates.of_controllers(), undo_watched=step.watched)

    @property
    def _listed(self) -> Collection[str]:
        return {host.name for host in (*self.cluster.controllers, *self.cluster.workers)}

    @property
    def _watch(self) -> NodeReturn:
        before = self.gates.health_before
        return NodeReturn(self.tools.kube, before.unready if before else ())

    def _add(self, planned: PlannedSurge) -> AddSurgeStep:
        removal = self._removal(planned)
        return AddSurgeStep(planned, removal.nodes, removal, self._watch)

    def _removal(self, planned: PlannedSurge) -> SurgeRemoval:
        kube, clock = self.tools.kube, self.tools.clock
        nodes = SurgeNodes(planned, kube, clock, self.tools.playbooks, self.cluster.inventory, self._listed)
        # No controller is a surge node.
        drain = Drain(kube, clock, planned.pool.drain, (), self._watch.problem, check=lambda: None)
        return SurgeRemoval(nodes, Cordons(kube, clock), drain)
