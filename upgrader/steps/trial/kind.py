"""The trial of the planned programs: they read their flags and files before anything changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from upgrader.model.skips import Skips
from upgrader.pipeline import PipelineStep
from upgrader.steps.plan import Plan
from upgrader.steps.step_kind import OwnKind, RunStart, preparing
from upgrader.steps.trial.step import TrialStep
from upgrader.steps.trial.trial import Trial

__all__ = ["TrialKind"]


@dataclass(frozen=True)
class TrialKind(OwnKind):
    """Builds the step that has what the plan starts anew read its flags and files."""

    def before(self, plan: Plan, start: RunStart) -> Iterator[PipelineStep]:
        """Where that is anything; a run that is resumed keeps it if it has it."""
        trial = self.step(plan, start.skips)
        if trial is not None and (start.resumed is None or trial.name in start.resumed):
            yield preparing(trial)

    def step(self, plan: Plan, skips: Skips) -> TrialStep | None:
        """The step alone; None where nothing is started anew."""
        context = self.context
        trial = Trial(context.tools.kube, context.tools.clock, context.cluster.controllers)
        return TrialStep.of(plan, trial, context.settings.severities, skips)
