"""Builds the steps of the pools of nodes, forward from a plan and backward from a journal."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from upgrader.config.playbooks import playbooks_folder
from upgrader.engine.execution.gatekeeper import hold_all
from upgrader.engine.history.named_changes import check_named_nodes
from upgrader.engine.state.run_state import StepState
from upgrader.errors import UsageError
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.node_return import NodeReturn
from upgrader.gates.release_gates import GateCatalog
from upgrader.model.cluster import Cluster
from upgrader.model.event import Event
from upgrader.model.node_configuration import NodeConfiguration
from upgrader.model.node_plan import NodePlanner
from upgrader.model.node_settings import NodeSource, NodesSettings
from upgrader.model.observed import Observed
from upgrader.model.plan import NodeChange, Plan, PlannedNodes, PlannedStep
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import PipelineStep
from upgrader.ports import Tools
from upgrader.steps.nodes.batch import Batch
from upgrader.steps.nodes.cordon import Cordons
from upgrader.steps.nodes.detaching import Detaching
from upgrader.steps.nodes.drain import Drain
from upgrader.steps.nodes.kubelet_log import KubeletLog
from upgrader.steps.nodes.node_playbooks import NodePlaybooks
from upgrader.steps.nodes.stage import StageNodesStep
from upgrader.steps.nodes.step import NodesInspector, NodesStep
from upgrader.steps.planner import plan_kubelet_config
from upgrader.steps.surge.builder import SurgeBuilder
from upgrader.steps.verify import VerifyStep

__all__ = ["NodesBuilder"]


class _Unheard:
    """Between two batches, only a gate that fails is told of."""

    def emit(self, event: Event) -> None:
        """Nobody listens."""


@dataclass(frozen=True)
class NodesBuilder:
    """Builds the steps of one cluster's pools."""

    settings: NodesSettings
    cluster: Cluster
    tools: Tools
    gates: GateCatalog
    patience_seconds: float
    """How long an API that doesn't answer is waited for between two batches."""

    def plan(self, observed: Observed, target: KubernetesVersion) -> tuple[PlannedStep, ...]:
        """A step for each pool, between those of its surge, and then, when every node has shown that it works, what
        nodes get that join later.
        """
        workers = frozenset(host.name for host in self.cluster.workers)
        planner = NodePlanner(self.settings, self._controllers, target, playbooks_folder(), workers)
        pools = (step for pool in planner.plan(observed) for step in self.surges.around(pool, observed))
        return (*pools, *plan_kubelet_config(self.settings.configuration.kubelet, observed))

    @property
    def surges(self) -> SurgeBuilder:
        """Builds the steps around those of pools with a surge."""
        return SurgeBuilder(self.cluster, self.tools, self.gates)

    def replan(self, planned: PlannedNodes, begun: StepState | None) -> PlannedNodes:
        """The same step, of the nodes that it had when it began.

        Raises UsageError where upgrader.yaml has no such pool, or it began with another configuration.
        """
        if begun is None:
            return planned
        if begun.restore_point is None:
            return replace(planned, nodes=())
        check_named_nodes(begun, self.settings, self.cluster)
        _check_configuration(begun, planned.configuration.fingerprint)
        nodes = (
            NodeChange(item.node, item.version, planned.target, configured=item.configured)
            for item in begun.restore_point.nodes
        )
        return replace(planned, nodes=tuple(nodes))

    def stage(self, plan: Plan) -> PipelineStep:
        """What comes before every change, for all pools; a run that is resumed has it, too, whatever is left."""
        nodes = [node.node for step in plan.steps if isinstance(step, PlannedNodes) for node in step.nodes]
        playbooks = self._playbooks(self.settings.source, plan.target, self.settings.configuration)
        return PipelineStep(StageNodesStep(playbooks, nodes), (), (), changes=False)

    def forward(self, planned: PlannedNodes) -> PipelineStep:
        """The step of a pool, with the gates of the cluster."""
        if planned.action == "unchanged":
            return PipelineStep(VerifyStep(planned.name), self.gates.of_cluster(), (), changes=False)
        step = self._step(planned)
        return PipelineStep(
            step, self.gates.of_cluster(), self.gates.of_controllers(), NodesInspector(step), watched=step.watched
        )

    def undo(self, begun: StepState, target: KubernetesVersion) -> PipelineStep:
        """The same, of which only the undo is left. Raises UsageError where upgrader.yaml has no such pool."""
        pool = check_named_nodes(begun, self.settings, self.cluster)
        assert begun.restore_point is not None
        nodes = tuple(NodeChange(item.node, item.version, target) for item in begun.restore_point.nodes)
        at_once = pool.max_unavailable.at_once(len(nodes))
        settings = self.settings
        step = self._step(
            PlannedNodes(pool, nodes, target, settings.source, settings.ready_seconds, at_once, playbooks_folder())
        )
        return PipelineStep(step, (), self.gates.of_controllers(), NodesInspector(step))

    @property
    def _controllers(self) -> Collection[str]:
        return frozenset(host.name for host in self.cluster.controllers)

    def _step(self, planned: PlannedNodes) -> NodesStep:
        tools = self.tools
        before = self.gates.health_before
        watch = NodeReturn(tools.kube, before.unready if before else ())
        machines = {host.name: host for host in (*self.cluster.controllers, *self.cluster.workers)}
        cordons = Cordons(tools.kube, tools.clock)
        batch = Batch(
            cordons=cordons,
            detaching=Detaching(tools.kube, tools.clock, cordons, planned.pool.detach, check=lambda: None),
            drain=Drain(
                tools.kube, tools.clock, planned.pool.drain, self._controllers, watch.problem, check=lambda: None
            ),
            playbooks=self._playbooks(planned.source, planned.target, planned.configuration),
            watch=watch,
            log=KubeletLog(tools.hosts, machines).last_errors,
            clock=tools.clock,
            ready_seconds=planned.ready_seconds,
        )
        return NodesStep(planned, batch, lambda: self._hold(planned.name))

    def _playbooks(
        self, source: NodeSource, target: KubernetesVersion, configuration: NodeConfiguration
    ) -> NodePlaybooks:
        playbooks, inventory = self.tools.playbooks, self.cluster.inventory
        known = configuration.fingerprint
        return NodePlaybooks(playbooks, playbooks_folder(), inventory, source, target, configuration, known)

    def _hold(self, step: str) -> None:
        absence = ApiAbsence(self.tools.kube, self.tools.clock, self.patience_seconds)
        # Not at the pace of a large cluster: between so many batches, that would be hours.
        gates = tuple(replace(run, policy=self.gates.policy) for run in self.gates.of_cluster())
        hold_all(step, gates, clock=self.tools.clock, reporter=_Unheard(), absence=absence)


def _check_configuration(begun: StepState, now: str) -> None:
    """A node's restore point is of one upgrade: under the name of another one, the run's undo wouldn't find it."""
    assert begun.restore_point is not None
    if begun.phase in ("applying", "gating", "failed") and begun.restore_point.configuration != now:
        raise UsageError(
            f"{begun.name} began with another configuration of the nodes than upgrader.yaml has now: a node that got"
            " both could not be put back",
            remedy="Restore `kubeletConfiguration` and `containerRuntime` (with its file) in upgrader.yaml, and resume;"
            " or run `upgrader rollback`, then start a new run.",
        )
