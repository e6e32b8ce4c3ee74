"""The step that has the images of a plan on the nodes that need them, before anything changes.

In a large cluster, most workers pull what only later steps need while the next steps are run: see `later_pulls.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from upgrader.model.found_images import FoundImages
from upgrader.model.image_settings import ImageSettings
from upgrader.model.own_steps import IMAGES
from upgrader.ports import Clock, Kube
from upgrader.steps.images.image_pulls import ImagePulls, remove_pullers
from upgrader.steps.images.lacked_images import PulledImages, compare, lacking_nodes, pull
from upgrader.steps.images.later_pulls import LaterPulls
from upgrader.steps.images.planned_images import PlannedPods, planned_pods
from upgrader.steps.one_way import OneWay
from upgrader.steps.plan import Plan

__all__ = ["PullImagesStep"]


@dataclass(frozen=True)
class PullImagesStep(OneWay):
    """Changes nothing but what is in the nodes' image stores: what was pulled in vain, the kubelets remove in time."""

    planned: tuple[PlannedPods, ...]
    kube: Kube
    clock: Clock
    settings: ImageSettings
    later: LaterPulls | None = None
    """What may be pulled beside the next steps; None: nothing."""

    NAME = IMAGES

    @classmethod
    def of(
        cls, plan: Plan, kube: Kube, clock: Clock, settings: ImageSettings, controllers: Collection[str] = ()
    ) -> PullImagesStep | None:
        """The step for a plan; None where it changes no release that has images.

        `controllers`: the names of their nodes; without any, nothing is left to be pulled beside other steps.
        """
        planned = planned_pods(plan)
        if not planned:
            return None
        later = LaterPulls.of(plan, planned, kube, clock, settings, frozenset(controllers)) if controllers else None
        return cls(planned, kube, clock, settings, later)

    @property
    def name(self) -> str:
        return self.NAME

    def summary(self) -> str:
        images = {image.name for pods in self.planned for image in pods.images}
        return f"pre-pull {len(images)} image{'s' * (len(images) != 1)}"

    def apply(self, note: Callable[[str], None]) -> None:
        remove_pullers(self.kube, note)
        found, pulled = FoundImages(), PulledImages()
        lacking = lacking_nodes(self.kube, self.planned, found, note)
        at_once = self.settings.at_once(len(lacking))
        first, rest = self.later.divide(lacking, at_once) if self.later is not None else (lacking, [])
        pull(ImagePulls(self.kube, self.clock, self.settings, note), first, at_once, pulled)
        pulled.tell(found)
        compare(found, note)
        if self.later is not None:
            self.later.begin(rest, at_once, pulled)
            if rest:
                note(
                    f"{len(rest)} workers pull the images of later steps while the run continues; step "
                    f"{self.later.needed_by} starts once they have them"
                )
                return
        done = f"{len(lacking)} node{'s' * (len(lacking) != 1)} had to pull images" if lacking else "no node lacked any"
        note(f"all images are on their nodes; {done}")
