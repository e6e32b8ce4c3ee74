"""etcd's members on the controllers: their image is changed, one after the other, and changed back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from upgrader.engine.state.run_state import RunState, StepState
from upgrader.errors import UsageError
from upgrader.model.etcd_settings import EtcdSettings
from upgrader.model.observed import Observed
from upgrader.model.outcome import VerdictKind
from upgrader.model.release import RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import PipelineStep
from upgrader.steps.etcd.mirror_pod import MirrorPods
from upgrader.steps.etcd.on_hosts import EtcdOnHosts
from upgrader.steps.etcd.plan import EtcdChange, PlannedEtcd, plan_etcd
from upgrader.steps.etcd.step import EtcdInspector, EtcdStep
from upgrader.steps.plan import Plan
from upgrader.steps.planned import PlannedStep
from upgrader.steps.step_kind import PlannedKind, Undoing

__all__ = ["EtcdKind"]


@dataclass(frozen=True)
class EtcdKind(PlannedKind[PlannedEtcd]):
    """Builds the step of the members."""

    name: ClassVar = PlannedEtcd.kind

    def plan(self, plan: Plan, observed: Observed, then: KubernetesVersion | None) -> tuple[PlannedStep, ...]:
        """First, as kubeadm has it."""
        return (*plan_etcd(self.context.settings.etcd, observed), *plan.steps)

    def replan(self, planned: PlannedEtcd, state: RunState) -> PlannedEtcd:
        """Of the members that it had when it began. Raises UsageError where the inventory lacks one."""
        begun = state.step(planned.name)
        if begun is None:
            return planned
        point = begun.restore_point
        if point is not None:
            self._named(point)
        members = (EtcdChange(before.node, before.image) for before in (point.etcd if point else ()))
        return replace(planned, members=tuple(members))

    def forward(self, planned: PlannedEtcd, plan: Plan) -> PipelineStep:
        """The step, with the gates of the cluster."""
        built = self._step(planned) if planned.members else self.context.verified(planned)
        return replace(built, gates=built.gates + self.context.further_gates(planned))

    def undoes(self, step: StepState, point: RestorePoint) -> bool:
        """One that names members."""
        return bool(point.etcd)

    def undo(self, undoing: Undoing) -> PipelineStep:
        """Raises UsageError where upgrader.yaml or the inventory differ."""
        return self._step(PlannedEtcd(self._named(undoing.point), ()))

    def _named(self, point: RestorePoint) -> EtcdSettings:
        """The section `etcd` of `upgrader.yaml`. Raises UsageError where there is none, or where the journal names what
        is no controller of the inventory. Which image comes back isn't the journal's to say: each controller keeps it.
        """
        settings = self.context.settings.etcd
        if settings is None:
            raise UsageError(
                "according to the run's journal, etcd's image must be restored, but upgrader.yaml has no section "
                "`etcd`",
                remedy="Restore the section, and run the same command again.",
            )
        controllers = {host.name for host in self.context.cluster.controllers}
        strangers = [item.node for item in point.etcd if item.node not in controllers]
        if strangers:
            raise UsageError(
                f"according to the run's journal, etcd must be restored on {', '.join(strangers)}, but they aren't in "
                "the inventory",
                remedy="Add them to the group `controllers` of the inventory, and run the same command again.",
            )
        return settings

    def _unwell(self) -> str:
        verdicts = (run.gate.check() for run in self.context.gates.of_controllers())
        return next((verdict.reason for verdict in verdicts if verdict.kind is not VerdictKind.HOLDS), "")

    def _step(self, planned: PlannedEtcd) -> PipelineStep:
        tools, gates = self.context.tools, self.context.gates
        etcd, controllers = EtcdOnHosts(tools.hosts), self.context.cluster.controllers
        show = MirrorPods(tools.kube, tools.clock).show
        step = EtcdStep(planned, etcd, controllers, tools.clock, show, self._unwell)
        inspector = EtcdInspector(step)
        # What undoes it needs no API, and may be what brings the API back.
        return PipelineStep(step, gates.of_cluster(), gates.of_controllers(), inspector, undo_needs_api=False)
