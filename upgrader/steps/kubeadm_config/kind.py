"""ConfigMap `kubeadm-config`: kubeadm is told which version runs, and told the one before where that comes back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from upgrader.engine.state.run_state import RunState, StepState
from upgrader.model.observed import Observed
from upgrader.model.release import RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import PipelineStep
from upgrader.steps.kubeadm_config.plan import PlannedKubeadmConfig, plan_kubeadm_config
from upgrader.steps.kubeadm_config.step import KubeadmConfigStep
from upgrader.steps.plan import Plan
from upgrader.steps.planned import PlannedStep
from upgrader.steps.step_kind import PlannedKind, Undoing
from upgrader.steps.verify import VerifyStep

__all__ = ["KubeadmConfigKind"]


@dataclass(frozen=True)
class KubeadmConfigKind(PlannedKind[PlannedKubeadmConfig]):
    """Builds the step that changes it."""

    name: ClassVar = PlannedKubeadmConfig.kind

    def plan(self, plan: Plan, observed: Observed, then: KubernetesVersion | None) -> tuple[PlannedStep, ...]:
        """Behind the releases that decide which version runs."""
        return (*plan.steps, *plan_kubeadm_config(plan, observed))

    def kept(self, state: RunState, observed: Observed) -> PlannedKubeadmConfig:
        """Even where the ConfigMap is gone or unreadable by now: where the run hasn't passed it yet, it fails and says
        so; where it has, the run goes on.
        """
        return PlannedKubeadmConfig(state.current or observed.server, self.context.settings.target)

    def replan(self, planned: PlannedKubeadmConfig, state: RunState) -> PlannedKubeadmConfig:
        """From the version that was there."""
        begun = state.step(planned.name)
        if begun is None:
            return planned
        point = begun.restore_point
        # Without one, it has nothing to undo, and so must not write.
        return replace(planned, before=point.kubeadm if point and point.kubeadm else planned.after)

    def forward(self, planned: PlannedKubeadmConfig, plan: Plan) -> PipelineStep:
        """Its one gate is that kubeadm is told what it should be."""
        return self._step(planned)

    def undoes(self, step: StepState, point: RestorePoint) -> bool:
        """By its name, with a version to go back to."""
        return step.name == PlannedKubeadmConfig.name and point.kubeadm is not None

    def undo(self, undoing: Undoing) -> PipelineStep:
        """The version of the journal is written back."""
        assert undoing.point.kubeadm is not None
        return self._step(PlannedKubeadmConfig(undoing.point.kubeadm, undoing.target))

    def _step(self, planned: PlannedKubeadmConfig) -> PipelineStep:
        gate, tools = self.context.gates.of_kubeadm(planned.after), self.context.tools
        if planned.action == "unchanged":
            return PipelineStep(VerifyStep(planned.name), (gate,), (), changes=False)
        return PipelineStep(KubeadmConfigStep(tools.kube, tools.clock, planned.before, planned.after), (gate,), ())
