"""The step that imports images from a bundle into the nodes of the inventory, over SSH."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Protocol

from upgrader.errors import HostError, StepFailed, UsageError
from upgrader.model.bundle_index import BundledImages, BundleIndex
from upgrader.model.cluster import Host
from upgrader.model.first_few import first_few
from upgrader.model.image_name import full_name
from upgrader.model.image_settings import ImageSettings
from upgrader.model.own_steps import BUNDLE
from upgrader.ports import Hosts
from upgrader.steps.images.planned_images import PlannedPods
from upgrader.steps.one_way import OneWay

__all__ = ["ImageSource", "ImportImagesStep"]

_CTR = ("ctr", "-n", "k8s.io", "images")
_LIST_SECONDS = 30.0


class ImageSource(Protocol):
    """An open bundle."""

    @property
    def index(self) -> BundleIndex:
        """What it has."""
        ...

    def content(self, images: BundledImages) -> Iterator[bytes]:
        """An image archive, piece by piece. Raises UsageError if it doesn't match its checksum."""
        ...


@dataclass(frozen=True)
class ImportImagesStep(OneWay):
    """Imports what a plan needs and a node lacks. What is there already under an image's name is left as it is."""

    planned: tuple[PlannedPods, ...]
    bundle: ImageSource
    hosts: Hosts
    nodes: tuple[Host, ...]
    settings: ImageSettings
    down: Callable[[], Collection[str]] = tuple
    """The nodes that are down, which get nothing. Raises ApiError."""

    NAME = BUNDLE

    @property
    def name(self) -> str:
        return self.NAME

    def summary(self) -> str:
        return f"images of the bundle on the {len(self.nodes)} nodes of the inventory"

    def apply(self, note: Callable[[str], None]) -> None:
        wanted = {full_name(image.name) for pods in self.planned for image in pods.images}
        archives = tuple(item for item in self.bundle.index.images if wanted & set(item.names))
        absent = sorted(wanted - {name for item in archives for name in item.names})
        if absent:
            note(f"not in the bundle, so nodes must have or pull them: {', '.join(absent)}")
        down = self.down()
        nodes = [node for node in self.nodes if node.name not in down]
        if left := [node.name for node in self.nodes if node.name in down]:
            note(f"skipped, because they are down: {first_few(left)}; import the images there before they come back")
        with ThreadPoolExecutor(self.settings.imported_at_once(len(nodes))) as pool:
            work = {pool.submit(self._import, node, archives): node for node in nodes}
            try:
                for done in as_completed(work):
                    note(f"{work[done].name}: {done.result()} of {len(archives)} image archives imported")
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _import(self, node: Host, archives: tuple[BundledImages, ...]) -> int:
        """How many archives a node lacked. Raises StepFailed."""
        try:
            there = set(self.hosts.run(node, [*_CTR, "ls", "-q"], timeout_seconds=_LIST_SECONDS).stdout.split())
            lacking = [item for item in archives if not there.issuperset(item.names)]
            for item in lacking:
                content, seconds = self.bundle.content(item), self.settings.deadline_seconds
                self.hosts.run(node, [*_CTR, "import", "-"], stdin=content, timeout_seconds=seconds)
        except (HostError, UsageError) as error:
            what = f"images could not be imported on {node.name}: {error.message}"
            remedy = error.remedy or "The node needs containerd with its program ctr, and free disk space."
            raise StepFailed(what, remedy=remedy) from error
        return len(lacking)
