"""The step that imports images from a bundle into the nodes of the inventory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from testkit.fakes.hosts import FakeHosts
from upgrader.errors import StepFailed, UsageError
from upgrader.model.bundle_index import BundledImages, BundleIndex
from upgrader.model.cluster import Host
from upgrader.model.image_settings import ImageSettings
from upgrader.model.version import KubernetesVersion
from upgrader.ports import CommandResult
from upgrader.steps.images.import_images import ImportImagesStep
from upgrader.steps.images.planned_images import PlannedPods, WantedImage

NODES = (Host("controller-1", "10.0.0.1"), Host("worker-1", "10.0.0.2"))
NGINX, OTHER = "docker.io/library/nginx:1", "r.io/other:1"


class Archives:
    """A bundle in memory, with an archive for each text: the names of its images."""

    def __init__(self, *names: str) -> None:
        images = tuple(
            BundledImages(f"images/{number}.tar", "", 1, tuple(name.split())) for number, name in enumerate(names)
        )
        self.index = BundleIndex(KubernetesVersion(1, 37, 1), "1", images, ())
        self.damaged = False

    def content(self, images: BundledImages) -> Iterator[bytes]:
        """In two pieces."""
        yield images.names[0].encode()
        if self.damaged:
            raise UsageError("b.tar: images/0.tar was changed while it was read", remedy="copy it again")
        yield b"!"


class Nodes(FakeHosts):
    """What each node has, and was sent."""

    def __init__(self, **there: str) -> None:
        super().__init__()
        self.sent: list[tuple[str, bytes]] = []
        self.full: set[str] = set()

        def ctr(host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
            if command[4] == "ls":
                return CommandResult(0, there.get(host.name.replace("-", "_"), ""), "")
            self.sent.append((host.name, stdin))
            return (
                CommandResult(1, "", "no space left on device") if host.name in self.full else CommandResult(0, "", "")
            )

        self.commands["ctr"] = ctr


def apply(nodes: Nodes, bundle: Archives, *wanted: str) -> list[str]:
    """Apply it; returns its notes."""
    pods = PlannedPods("Pod a/b", "a", "default", (), False, "", tuple(map(WantedImage, wanted)), {})
    notes: list[str] = []
    ImportImagesStep((pods,), bundle, nodes, NODES, ImageSettings()).apply(notes.append)
    return sorted(notes)


def test_nodes_get_what_they_lack() -> None:
    """What the plan needs, and only where it isn't there under its name; by containerd's own program."""
    nodes = Nodes(controller_1=f"{NGINX}\nother\n")
    notes = apply(nodes, Archives(NGINX, OTHER), "nginx:1")
    assert nodes.sent == [("worker-1", f"{NGINX}!".encode())]
    assert ("worker-1", ("ctr", "-n", "k8s.io", "images", "import", "-")) in nodes.ran
    assert notes == [
        "controller-1: 0 of 1 image archives imported",
        "worker-1: 1 of 1 image archives imported",
    ]


def test_node_that_is_down_gets_nothing_and_stops_nothing() -> None:
    """Nobody asks it over SSH, which would only time out; it is named."""
    nodes, notes = Nodes(), list[str]()
    pods = PlannedPods("Pod a/b", "a", "default", (), False, "", (WantedImage(NGINX),), {})
    step = ImportImagesStep((pods,), Archives(NGINX), nodes, NODES, ImageSettings(), lambda: {"worker-1"})
    step.apply(notes.append)
    assert [name for name, _ in nodes.sent] == ["controller-1"] and {name for name, _ in nodes.ran} == {"controller-1"}
    assert notes[0] == "skipped, because they are down: worker-1; import the images there before they come back"


def test_node_that_has_a_part_of_an_archive() -> None:
    """One with several images is sent where any of them is missing."""
    nodes = Nodes(controller_1=f"{NGINX}\n{OTHER}\n", worker_1=f"{NGINX}\n")
    apply(nodes, Archives(f"{NGINX} {OTHER}"), "nginx:1", OTHER)
    assert [name for name, _ in nodes.sent] == ["worker-1"]


def test_image_that_the_bundle_lacks_is_named() -> None:
    """The nodes may have it, or reach a registry: the step after this one finds out."""
    assert f"not in the bundle, so nodes must have or pull them: {OTHER}" in apply(Nodes(), Archives(), OTHER)


def test_node_without_room() -> None:
    """The node and its own words; nothing needs undoing."""
    nodes = Nodes()
    nodes.full.add("worker-1")
    with pytest.raises(StepFailed, match=r"imported on worker-1: .*no space left") as caught:
        apply(nodes, Archives(NGINX), NGINX)
    assert "free disk space" in caught.value.remedy


def test_bundle_that_changes_meanwhile() -> None:
    """Nothing of it reaches a node."""
    nodes, bundle = Nodes(), Archives(NGINX)
    bundle.damaged = True
    with pytest.raises(StepFailed, match="was changed while it was read") as caught:
        apply(nodes, bundle, NGINX)
    assert (nodes.sent, caught.value.remedy) == ([], "copy it again")


def test_step_says_what_it_does() -> None:
    """It has nothing to undo."""
    step = ImportImagesStep((), Archives(), Nodes(), NODES, ImageSettings())
    assert (step.name, step.summary()) == ("bundle", "images of the bundle on the 2 nodes of the inventory")
