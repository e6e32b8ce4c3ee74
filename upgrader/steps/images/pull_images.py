"""The step that has every image of a plan on every node that needs it, before anything changes."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from upgrader.errors import ApiError, StepFailed
from upgrader.model.first_few import first_few
from upgrader.model.found_images import FoundImages
from upgrader.model.own_steps import IMAGES
from upgrader.model.settings import ImageSettings
from upgrader.ports import Clock, Kind, Kube
from upgrader.steps.images.image_pulls import ImagePulls, remove_pullers
from upgrader.steps.images.node_images import NodeNeeds, needs_of, not_ready
from upgrader.steps.images.planned_images import PlannedPods, planned_pods
from upgrader.steps.images.puller_pod import PullerPod
from upgrader.steps.one_way import OneWay
from upgrader.steps.plan import Plan

__all__ = ["PullImagesStep"]

_NODES = Kind("v1", "nodes", namespaced=False)
_NAMESPACES = Kind("v1", "namespaces", namespaced=False)
_SECRETS = Kind("v1", "secrets")
_SERVICE_ACCOUNTS = Kind("v1", "serviceaccounts")

_DIFFERENT = (
    "Pin the image by its digest in the chart's values; or remove the wrong one from its node (crictl rmi IMAGE, once "
    "no pod uses it), and run again."
)


@dataclass(frozen=True)
class PullImagesStep(OneWay):
    """Changes nothing but what is in the nodes' image stores: what was pulled in vain, the kubelets remove in time."""

    planned: tuple[PlannedPods, ...]
    kube: Kube
    clock: Clock
    settings: ImageSettings

    NAME = IMAGES

    @classmethod
    def of(cls, plan: Plan, kube: Kube, clock: Clock, settings: ImageSettings) -> PullImagesStep | None:
        """The step for a plan; None where it changes no release that has images."""
        planned = planned_pods(plan)
        return cls(planned, kube, clock, settings) if planned else None

    @property
    def name(self) -> str:
        return self.NAME

    def summary(self) -> str:
        images = {image.name for pods in self.planned for image in pods.images}
        return f"pre-pull {len(images)} image{'s' * (len(images) != 1)}"

    def apply(self, note: Callable[[str], None]) -> None:
        remove_pullers(self.kube, note)
        planned = [known for pods in self.planned if (known := self._possible(pods, note)) is not None]
        found = FoundImages()
        lacking, away = self._lacking(planned, found)
        if away:
            note(f"not Ready, so images were not pulled: {first_few(away)}")
        pulls = ImagePulls(self.kube, self.clock, self.settings, note)
        nodes = {needs.name: needs.node for needs in lacking}
        for node, status in pulls.run({needs.name: tuple(_pods_for(needs)) for needs in lacking}):
            found.add(status.image, nodes[node], (status.image_id,))
        _compare(found, note)
        done = f"{len(lacking)} node{'s' * (len(lacking) != 1)} had to pull images" if lacking else "no node lacked any"
        note(f"all images are on their nodes; {done}")

    def _lacking(self, planned: list[PlannedPods], found: FoundImages) -> tuple[list[NodeNeeds], list[str]]:
        """The nodes that lack something, and the names of those that can't pull now."""
        lacking, away = [], []
        for node in self.kube.each(_NODES):
            needs = needs_of(node, planned, found)
            if needs.pods and not_ready(node):
                away.append(needs.name)
            elif needs.pods:
                lacking.append(needs)
        return lacking, away

    def _possible(self, pods: PlannedPods, note: Callable[[str], None]) -> PlannedPods | None:
        """The same as it can be asked for now; None where its own release must come first."""
        if self._absent(_NAMESPACES, pods.namespace):
            note(f"{pods.workload}: its images can't be pulled before its namespace exists")
            return None
        for name in pods.own_secrets:
            if self._absent(_SECRETS, name, pods.namespace):
                note(f"{pods.workload}: its images can't be pulled before its release creates Secret {name}")
                return None
        if self._absent(_SERVICE_ACCOUNTS, pods.service_account, pods.namespace):
            return replace(pods, service_account="default")  # its release brings it
        return pods

    def _absent(self, kind: Kind, name: str, namespace: str = "") -> bool:
        """Whether there is no such object; what may not be read is taken to be there, as it mostly is."""
        try:
            return self.kube.get(kind, name, namespace) is None
        except ApiError as error:
            if error.status != 403:
                raise
            return False


def _compare(found: FoundImages, note: Callable[[str], None]) -> None:
    differing = tuple(found.differing())
    if differing:
        raise StepFailed("nodes have different images with the same name: " + "\n".join(differing), remedy=_DIFFERENT)
    for line in found.known():
        note(line)


def _pods_for(needs: NodeNeeds) -> Iterator[PullerPod]:
    """One pod for all workloads that pull with the same credentials, of the same runtime."""
    groups: dict[tuple[str, str, tuple[str, ...], str], list[PlannedPods]] = {}
    for pods in needs.pods:
        key = pods.namespace, pods.service_account, pods.pull_secrets, pods.runtime_class
        groups.setdefault(key, []).append(pods)
    for (namespace, account, pull_secrets, runtime_class), several in groups.items():
        yield PullerPod(
            f"upgrader-image-puller-{secrets.token_hex(4)}",
            needs.name,
            namespace,
            account,
            pull_secrets,
            any(pods.host_network for pods in several),
            runtime_class,
            tuple(dict.fromkeys(image for pods in several for image in pods.images)),
        )
