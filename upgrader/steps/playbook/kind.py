"""Playbooks of the pipeline: run by Ansible, undone by the playbook that upgrader.yaml names for that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from upgrader.engine.state.run_state import StepState
from upgrader.model.release import RestorePoint
from upgrader.model.settings import PlaybookSettings
from upgrader.pipeline import GateRun, PipelineStep
from upgrader.steps.plan import Plan
from upgrader.steps.playbook.plan import PlannedPlaybook
from upgrader.steps.playbook.playbook_markers import PlaybookInspector, PlaybookMarkers
from upgrader.steps.playbook.step import PlaybookStep
from upgrader.steps.step_kind import PlannedKind, Undoing, not_named

__all__ = ["PlaybookKind"]

_SECONDS = 1800.0


@dataclass(frozen=True)
class PlaybookKind(PlannedKind[PlannedPlaybook]):
    """Builds the steps of playbooks."""

    name: ClassVar = PlannedPlaybook.kind
    in_pipeline: ClassVar = True

    def forward(self, planned: PlannedPlaybook, plan: Plan) -> PipelineStep:
        """The playbook, with the gates of the cluster."""
        return self._step(planned, self.context.further_gates(planned))

    def undoes(self, step: StepState, point: RestorePoint) -> bool:
        """One of the pipeline that names no release."""
        return not point.release

    def undo(self, undoing: Undoing) -> PipelineStep:
        """The playbook's own, as upgrader.yaml has it."""
        named = (item for item in self.context.settings.pipeline if isinstance(item, PlaybookSettings))
        item = next((each for each in named if each.name == undoing.step.name), None)
        if item is None:
            raise not_named(undoing.step, "a playbook")
        return self._step(PlannedPlaybook(item.playbook, item.undo), ())

    def _step(self, planned: PlannedPlaybook, further: tuple[GateRun, ...]) -> PipelineStep:
        context, tools = self.context, self.context.tools
        markers = PlaybookMarkers(tools.hosts, context.cluster.controllers, planned.playbook, tools.clock)
        inventory = context.cluster.inventory
        step = PlaybookStep(planned.playbook, inventory, tools.playbooks, _SECONDS, markers, planned.undo)
        gates = context.gates.of_cluster() + further
        undo_gates = context.gates.of_controllers() + context.further_undo_gates(planned.name)
        groups = context.groups(planned.name)
        return PipelineStep(step, gates, undo_gates, PlaybookInspector(markers), groups=groups)
