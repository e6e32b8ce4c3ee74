"""ConfigMap `kubelet-config`: what nodes get that join later."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from upgrader.engine.state.run_state import RunState, StepState
from upgrader.model.observed import Observed
from upgrader.model.release import RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import PipelineStep
from upgrader.steps.kubelet_config.plan import PlannedKubeletConfig, plan_kubelet_config
from upgrader.steps.kubelet_config.step import KubeletConfigStep
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.plan import Plan, planned_of
from upgrader.steps.planned import PlannedStep
from upgrader.steps.step_kind import PlannedKind, Undoing
from upgrader.steps.verify import VerifyStep

__all__ = ["KubeletConfigKind"]


@dataclass(frozen=True)
class KubeletConfigKind(PlannedKind[PlannedKubeletConfig]):
    """Builds the step that changes it."""

    name: ClassVar = PlannedKubeletConfig.kind

    def plan(self, plan: Plan, observed: Observed, then: KubernetesVersion | None) -> tuple[PlannedStep, ...]:
        """Behind the nodes, where the plan has those."""
        nodes = self.context.settings.nodes
        if nodes is None or not planned_of(plan, PlannedNodes):
            return plan.steps
        return (*plan.steps, *plan_kubelet_config(nodes.configuration.kubelet, observed))

    def kept(self, state: RunState, observed: Observed) -> PlannedKubeletConfig | None:
        """Even if the ConfigMap is gone or unreadable by now, as for `kubeadm-config`."""
        nodes = self.context.settings.nodes
        if nodes is None:
            return None
        return PlannedKubeletConfig(nodes.configuration.kubelet, tuple(nodes.configuration.kubelet))

    def replan(self, planned: PlannedKubeletConfig, state: RunState) -> PlannedKubeletConfig:
        """Without a restore point, it has nothing to undo, and so must not write. With one, the annotation has the text
        to go back to, whatever the fields are now.
        """
        begun = state.step(planned.name)
        if begun is None:
            return planned
        return replace(planned, lacking=tuple(planned.fields) if begun.restore_point else ())

    def forward(self, planned: PlannedKubeletConfig, plan: Plan) -> PipelineStep:
        """Its one gate is that nodes which join get the fields."""
        gate = self.context.gates.of_kubelet_config(planned.fields)
        if planned.action == "unchanged":
            return PipelineStep(VerifyStep(planned.name), (gate,), (), changes=False)
        tools = self.context.tools
        return PipelineStep(KubeletConfigStep(tools.kube, tools.clock, planned.fields), (gate,), ())

    def undoes(self, step: StepState, point: RestorePoint) -> bool:
        """By its name, with a text to go back to."""
        return step.name == PlannedKubeletConfig.name and bool(point.kubelet)

    def undo(self, undoing: Undoing) -> PipelineStep:
        """The text that an annotation keeps is written back."""
        return PipelineStep(KubeletConfigStep(self.context.tools.kube, self.context.tools.clock, {}), (), ())
