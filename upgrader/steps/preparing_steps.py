"""The steps that come before all others: a backup, the images on their nodes, programs that read their flags.

They change nothing that runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from upgrader.model.cluster import Cluster
from upgrader.model.plan import Plan
from upgrader.model.settings import Settings
from upgrader.model.skips import Skips
from upgrader.pipeline import PipelineStep, Step
from upgrader.ports import Tools
from upgrader.steps.backup.step import BackupStep, takes_backup
from upgrader.steps.backup.take import BackupTaker
from upgrader.steps.images.import_images import ImageSource, ImportImagesStep
from upgrader.steps.images.pull_images import PullImagesStep
from upgrader.steps.trial.step import TrialStep
from upgrader.steps.trial.trial import Trial
from upgrader.steps.verify import VerifyStep

__all__ = ["PreparingSteps"]


@dataclass(frozen=True)
class PreparingSteps:
    """Builds them for one cluster."""

    settings: Settings
    cluster: Cluster
    tools: Tools
    backup_taker: BackupTaker | None
    """None where a minor upgrade begins without a backup."""

    def of(
        self, plan: Plan, planned: Collection[str] | None, bundle: ImageSource | None, skips: Skips
    ) -> Iterator[PipelineStep]:
        """Those of a plan. `planned` are the names of a run's steps that is resumed: it keeps those that it began with,
        whatever the settings say now.
        """
        if self.backup_taker is not None and takes_backup(self.backup_taker, plan, planned):
            yield _preparing(BackupStep(self.backup_taker))
        yield from self._images(plan, planned, bundle)
        trial = self.trial(plan, skips)
        if trial is not None and (planned is None or trial.name in planned):
            yield _preparing(trial)

    def trial(self, plan: Plan, skips: Skips) -> TrialStep | None:
        """The step that has what the plan starts anew read its flags and files; None where that is nothing."""
        trial = Trial(self.tools.kube, self.tools.clock, self.cluster.controllers)
        return TrialStep.of(plan, trial, self.settings.severities, skips)

    def _images(
        self, plan: Plan, planned: Collection[str] | None, bundle: ImageSource | None
    ) -> Iterator[PipelineStep]:
        images = PullImagesStep.of(plan, self.tools.kube, self.tools.clock, self.settings.images)
        if images is None:
            return
        if planned is not None and ImportImagesStep.NAME in planned and bundle is None:
            # What it imported is there or not: the next step asks.
            yield _preparing(VerifyStep(ImportImagesStep.NAME))
        elif bundle is not None and (planned is None or ImportImagesStep.NAME in planned):
            nodes = (*self.cluster.controllers, *self.cluster.workers)
            yield _preparing(ImportImagesStep(images.planned, bundle, self.tools.hosts, nodes, self.settings.images))
        if self.settings.images.pull if planned is None else images.name in planned:
            yield _preparing(images)


def _preparing(step: Step) -> PipelineStep:
    return PipelineStep(step, (), (), changes=False, prepares=True)
