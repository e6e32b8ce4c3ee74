"""The images of a plan on the nodes that need them, before anything changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from upgrader.gates.node_health import unreachable_nodes
from upgrader.pipeline import PipelineStep
from upgrader.steps.images.import_images import ImportImagesStep
from upgrader.steps.images.pull_images import PullImagesStep
from upgrader.steps.plan import Plan
from upgrader.steps.step_kind import OwnKind, RunStart, preparing
from upgrader.steps.verify import VerifyStep

__all__ = ["ImagesKind"]


@dataclass(frozen=True)
class ImagesKind(OwnKind):
    """Builds the steps that import them from a bundle, and that have the nodes pull them."""

    def before(self, plan: Plan, start: RunStart) -> Iterator[PipelineStep]:
        """Where the plan needs any; a run that is resumed keeps what it began with."""
        context, resumed, bundle = self.context, start.resumed, start.bundle
        settings = context.settings.images
        controllers = [host.name for host in context.cluster.controllers]
        images = PullImagesStep.of(plan, context.tools.kube, context.tools.clock, settings, controllers)
        if images is None:
            return
        if resumed is not None and ImportImagesStep.NAME in resumed and bundle is None:
            # What it imported is there or not: the next step asks.
            yield preparing(VerifyStep(ImportImagesStep.NAME))
        elif bundle is not None and (resumed is None or ImportImagesStep.NAME in resumed):
            nodes = (*context.cluster.controllers, *context.cluster.workers)
            yield preparing(ImportImagesStep(images.planned, bundle, context.tools.hosts, nodes, settings, self._down))
        if settings.pull if resumed is None else images.name in resumed:
            yield replace(preparing(images), beside=images.later)

    def _down(self) -> frozenset[str]:
        """The workers that are down, and were when the run began: of the others, an import has to tell."""
        context, health = self.context, self.context.health_before
        needed = {host.name for host in context.cluster.controllers}
        needed.update(health.workers if health else (host.name for host in context.cluster.workers))
        return frozenset(unreachable_nodes(context.tools.kube)) - needed
