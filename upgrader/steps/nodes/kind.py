"""Pools of nodes: their kubelets and programs are upgraded, in batches, and get back what they had."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from upgrader.built_in_files import playbooks_folder
from upgrader.engine.execution.gatekeeper import hold_all
from upgrader.engine.state.run_state import RunState, StepState
from upgrader.errors import UsageError
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.node_return import NodeReturn
from upgrader.model.event import Event
from upgrader.model.node_configuration import NodeConfiguration
from upgrader.model.node_settings import CONTROLLERS, NodePool, NodeSource, NodesSettings
from upgrader.model.observed import Observed
from upgrader.model.release import RestorePoint
from upgrader.model.version import KUBELET_MINORS, KubernetesVersion
from upgrader.pipeline import PipelineStep
from upgrader.steps.nodes.batch import Batch
from upgrader.steps.nodes.cordon import Cordons
from upgrader.steps.nodes.detaching import Detaching
from upgrader.steps.nodes.drain import Drain
from upgrader.steps.nodes.kubelet_log import KubeletLog
from upgrader.steps.nodes.node_playbooks import NodePlaybooks
from upgrader.steps.nodes.plan import NodePlanner, PlannedNodes
from upgrader.steps.nodes.stage import StageNodesStep
from upgrader.steps.nodes.step import NodesInspector, NodesStep
from upgrader.steps.plan import Plan, planned_of
from upgrader.steps.planned import PlannedStep
from upgrader.steps.step_document import NodeChange
from upgrader.steps.step_kind import PlannedKind, Undoing

__all__ = ["NodesKind"]

_FINGERPRINT = re.compile(r"[0-9a-f]*")


class _Unheard:
    """Between two batches, only a gate that fails is told of."""

    def emit(self, event: Event) -> None:
        """No listener."""


@dataclass(frozen=True)
class NodesKind(PlannedKind[PlannedNodes]):
    """Builds the steps of one cluster's pools."""

    name: ClassVar = PlannedNodes.kind

    def plan(self, plan: Plan, observed: Observed, then: KubernetesVersion | None) -> tuple[PlannedStep, ...]:
        """A step for each pool, if upgrader.yaml has the nodes upgraded.

        While the API server is to emulate an older minor, no kubelet gets ahead of that: the run may be undone later.
        Nodes are drained before the next of several hops only where that needs it.
        """
        due = then is None or any(then.minors_after(each) > KUBELET_MINORS for each in observed.kubelets.values())
        settings = self.context.settings.nodes
        if settings is None or plan.emulated is not None or not due:
            return plan.steps
        workers = frozenset(host.name for host in self.context.cluster.workers)
        planner = NodePlanner(settings, self._controllers, plan.target, playbooks_folder(), workers)
        return (*plan.steps, *planner.plan(observed))

    def replan(self, planned: PlannedNodes, state: RunState) -> PlannedNodes:
        """Of the nodes that it had when it began.

        Raises UsageError where upgrader.yaml has no such pool, or it began with another configuration.
        """
        begun = state.step(planned.name)
        if begun is None:
            return planned
        if begun.restore_point is None:
            return replace(planned, nodes=())
        self._pool(begun, begun.restore_point)
        _check_configuration(begun, planned.configuration.fingerprint)
        nodes = (
            NodeChange(item.node, item.version, planned.target, configured=item.configured)
            for item in begun.restore_point.nodes
        )
        return replace(planned, nodes=tuple(nodes))

    def before(self, plan: Plan) -> Iterable[PipelineStep]:
        """The programs are brought to all nodes before every change; a run that is resumed has this step, too, whatever
        is left.
        """
        pools = planned_of(plan, PlannedNodes)
        if not pools:
            return ()
        nodes = [node.node for step in pools for node in step.nodes]
        playbooks = self._playbooks(self._settings.source, plan.target, self._settings.configuration)
        return (PipelineStep(StageNodesStep(playbooks, nodes), (), (), changes=False),)

    def forward(self, planned: PlannedNodes, plan: Plan) -> PipelineStep:
        """The step of a pool, with the gates of the cluster."""
        further = self.context.further_gates(planned)
        if planned.action == "unchanged":
            verified = self.context.verified(planned)
            return replace(verified, gates=verified.gates + further)
        step, gates = self._step(planned), self.context.gates
        return PipelineStep(
            step,
            gates.of_cluster() + further,
            gates.of_controllers(),
            NodesInspector(step),
            watched=step.watched,
            changes_logins=False,
        )

    def undoes(self, step: StepState, point: RestorePoint) -> bool:
        """One that names nodes."""
        return bool(point.nodes)

    def undo(self, undoing: Undoing) -> PipelineStep:
        """Each node gets back what it had. Raises UsageError where upgrader.yaml has no such pool."""
        if self.context.settings.nodes is None:
            raise UsageError(
                f"this run changed nodes in step {undoing.step.name!r}, but upgrader.yaml has no section `nodes`",
                remedy="Restore the section, and run the same command again.",
            )
        pool = self._pool(undoing.step, undoing.point)
        nodes = tuple(NodeChange(item.node, item.version, undoing.target) for item in undoing.point.nodes)
        at_once = pool.max_unavailable.at_once(len(nodes))
        source, seconds = self._settings.source, self._settings.ready_seconds
        step = self._step(PlannedNodes(pool, nodes, undoing.target, source, seconds, at_once, playbooks_folder()))
        gates = self.context.gates.of_controllers()
        return PipelineStep(step, (), gates, NodesInspector(step), undo_watched=step.watched)

    @property
    def _settings(self) -> NodesSettings:
        assert self.context.settings.nodes is not None, "only the section `nodes` makes such steps"
        return self.context.settings.nodes

    @property
    def _controllers(self) -> Collection[str]:
        return frozenset(host.name for host in self.context.cluster.controllers)

    def _pool(self, step: StepState, point: RestorePoint) -> NodePool:
        """The pool of `upgrader.yaml` that a journal's step is. Raises UsageError where there is none, or where the
        journal names a node that isn't the inventory's.
        """
        pool = next((item for item in self._settings.pools if item.step == step.name), None)
        if pool is None:
            raise UsageError(
                f"this run changed nodes in step {step.name!r}, but `nodes.pools` in upgrader.yaml has no such pool",
                remedy="Restore `nodes.pools` in upgrader.yaml, and run the same command again.",
            )
        cluster = self.context.cluster
        hosts = cluster.controllers if pool.name == CONTROLLERS else cluster.workers
        strangers = [item.node for item in point.nodes if item.node not in {host.name for host in hosts}]
        if strangers:
            raise UsageError(
                f"according to the run's journal, step {step.name!r} restores {', '.join(strangers)}, but they aren't "
                "in the inventory",
                remedy="Add these nodes to their group in the inventory, and run the same command again.",
            )
        if not _FINGERPRINT.fullmatch(point.configuration):
            raise UsageError(  # Ansible would run what is written there
                f"the run's journal has an invalid configuration fingerprint in step {step.name!r}",
                remedy="upgrader never writes this: find out who changed the journal. Restore the nodes with "
                "playbooks/restore-node.yml.",
            )
        return pool

    def _step(self, planned: PlannedNodes) -> NodesStep:
        tools, cluster = self.context.tools, self.context.cluster
        before = self.context.health_before
        watch = NodeReturn(tools.kube, before.unready if before else ())
        machines = {host.name: host for host in (*cluster.controllers, *cluster.workers)}
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
        playbooks, inventory = self.context.tools.playbooks, self.context.cluster.inventory
        known = configuration.fingerprint
        return NodePlaybooks(playbooks, playbooks_folder(), inventory, source, target, configuration, known)

    def _hold(self, step: str) -> None:
        context, catalog = self.context, self.context.gates
        clock = context.tools.clock
        absence = ApiAbsence(context.tools.kube, clock, context.settings.recovery.patience_seconds)
        # Not at the pace of a large cluster: between so many batches, that would be hours.
        gates = tuple(replace(run, policy=catalog.policy) for run in catalog.of_cluster())
        reads = context.memory.reads
        hold_all(step, gates, clock=clock, reporter=_Unheard(), absence=absence, asked=lambda: reads.asked)


def _check_configuration(begun: StepState, now: str) -> None:
    """A node's restore point is of one upgrade: under the name of another one, the run's undo wouldn't find it."""
    assert begun.restore_point is not None
    if begun.phase in ("applying", "gating", "failed") and begun.restore_point.configuration != now:
        raise UsageError(
            f"{begun.name} started with a different node configuration than upgrader.yaml has now: it would be "
            "impossible to restore a node that has both configurations",
            remedy="Restore `kubeletConfiguration` and `containerRuntime` (with its file) in upgrader.yaml, and resume;"
            " or run `upgrader rollback`, then start a new run.",
        )
