"""Builds the step of etcd's members, forward from a plan and backward from a journal."""

from __future__ import annotations

from dataclasses import dataclass, replace

from upgrader.engine.history.named_changes import check_named_members
from upgrader.engine.state.run_state import StepState
from upgrader.gates.release_gates import GateCatalog
from upgrader.model.cluster import Cluster
from upgrader.model.etcd_plan import EtcdChange, PlannedEtcd
from upgrader.model.etcd_settings import EtcdSettings
from upgrader.model.outcome import VerdictKind
from upgrader.pipeline import PipelineStep
from upgrader.ports import Tools
from upgrader.steps.etcd.mirror_pod import MirrorPods
from upgrader.steps.etcd.on_hosts import EtcdOnHosts
from upgrader.steps.etcd.step import EtcdInspector, EtcdStep
from upgrader.steps.verify import VerifyStep

__all__ = ["EtcdBuilder"]


@dataclass(frozen=True)
class EtcdBuilder:
    """Builds it for one cluster; `settings`: None where upgrader.yaml has no section `etcd`."""

    settings: EtcdSettings | None
    cluster: Cluster
    tools: Tools
    gates: GateCatalog

    def replan(self, planned: PlannedEtcd, begun: StepState | None) -> PlannedEtcd:
        """The same step, of the members that it had when it began. Raises UsageError where the inventory lacks one."""
        if begun is None:
            return planned
        point = begun.restore_point
        if point is not None:
            check_named_members(begun, self.cluster, self.settings)
        members = (EtcdChange(before.node, before.image) for before in (point.etcd if point else ()))
        return replace(planned, members=tuple(members))

    def forward(self, planned: PlannedEtcd) -> PipelineStep:
        """The step, with the gates of the cluster."""
        if not planned.members:
            return PipelineStep(VerifyStep(planned.name), self.gates.of_cluster(), (), changes=False)
        return self._step(planned)

    def undo(self, begun: StepState) -> PipelineStep:
        """The same, of which only the undo is left. Raises UsageError where upgrader.yaml or the inventory differ."""
        settings = check_named_members(begun, self.cluster, self.settings)
        return self._step(PlannedEtcd(settings, ()))

    def _unwell(self) -> str:
        verdicts = (run.gate.check() for run in self.gates.of_controllers())
        return next((verdict.reason for verdict in verdicts if verdict.kind is not VerdictKind.HOLDS), "")

    def _step(self, planned: PlannedEtcd) -> PipelineStep:
        tools = self.tools
        etcd, controllers = EtcdOnHosts(tools.hosts), self.cluster.controllers
        show = MirrorPods(tools.kube, tools.clock).show
        step = EtcdStep(planned, etcd, controllers, tools.clock, show, self._unwell)
        inspector = EtcdInspector(step)
        gates, undo_gates = self.gates.of_cluster(), self.gates.of_controllers()
        # What undoes it needs no API, and may be what brings the API back.
        return PipelineStep(step, gates, undo_gates, inspector, undo_needs_api=False)
