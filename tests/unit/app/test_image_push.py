"""`upgrader images push`: which archive goes where, and when the values of the pod-checkpointer are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader import __version__
from upgrader.app import image_push
from upgrader.app.image_push import Pushed, push_images
from upgrader.errors import ConfigError, UsageError

REGISTRY = "registry.example.com/upgrader"
VALUES = "# ours\nlogLevel: 2\n"
PIPELINE = "kubernetesVersion: v1.37.1\npipeline:\n  - {release: pod-checkpointer, values: values.yaml}\n"


class Registry:
    """Takes archives by their names, but for those that it refuses."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.release = folder / "cluster", folder / "release"
        self.values = self.folder / "values.yaml"
        self.has: dict[str, str] = {}
        self.refuses = ""
        self.said: list[str] = []

    def take(self, archive: Path, image: str) -> str:
        """As skopeo does."""
        if self.refuses and self.refuses in archive.name:
            raise UsageError(f"skopeo could not push {archive.name}")
        self.has[image] = archive.name
        return f"sha256:{len(self.has)}"

    def build(self, *names: str) -> None:
        """What `make dist` makes."""
        for name in names:
            path = self.release / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def push(self, registry: str = REGISTRY) -> Pushed:
        """The command."""
        return push_images(self.folder, self.release, registry, self.said.append)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A release with two images and a chart, and a folder that uses the built-in chart."""
    made = Registry(tmp_path)
    made.folder.mkdir()
    (made.folder / "upgrader.yaml").write_text(PIPELINE)
    made.values.write_text(VALUES)
    made.build(*(f"images/{name}-{__version__}.tar" for name in ("guard", "pod-checkpointer")))
    made.build(f"charts/guard-{__version__}.oci.tar", "images/guard-0.0.1.tar", "images/SHA256SUMS")
    monkeypatch.setattr(image_push, "push_archive", made.take)
    return made


@pytest.mark.parametrize("end", ["", "/"])
def test_what_was_built_goes_below_the_registry(registry: Registry, end: str) -> None:
    """An image and a chart of one name don't meet, and no archive of another version is pushed."""
    pushed = registry.push(f"{REGISTRY}{end}")
    assert registry.has == {
        f"{REGISTRY}/guard:{__version__}": f"guard-{__version__}.tar",
        f"{REGISTRY}/pod-checkpointer:{__version__}": f"pod-checkpointer-{__version__}.tar",
        f"{REGISTRY}/charts/guard:{__version__}": f"guard-{__version__}.oci.tar",
    }
    assert pushed.references == (
        f"{REGISTRY}/guard@sha256:1",
        f"{REGISTRY}/pod-checkpointer@sha256:2",
        f"{REGISTRY}/charts/guard@sha256:3",
    )
    assert [line.partition(": ")[2] for line in registry.said] == [
        f"pushing it to {REGISTRY}/{name}" for name in ("guard", "pod-checkpointer", "charts/guard")
    ]


def test_digest_is_written_into_the_values(registry: Registry) -> None:
    """By digest, as whoever can push a tag would have root on every controller; the operator's own lines stay."""
    pushed = registry.push()
    assert pushed.values_file == registry.values
    image = f'image:\n  repository: "{REGISTRY}/pod-checkpointer"\n  digest: "sha256:2"\n'
    assert registry.values.read_text() == VALUES + image


def test_registry_that_refuses_the_last_one(registry: Registry) -> None:
    """The values are as they were, although the image that they would name is there."""
    registry.refuses = ".oci.tar"
    with pytest.raises(UsageError, match="could not push"):
        registry.push()
    assert f"{REGISTRY}/pod-checkpointer:{__version__}" in registry.has
    assert registry.values.read_text() == VALUES


def test_values_that_cannot_be_edited(registry: Registry) -> None:
    """They are refused before anything is in the registry."""
    registry.values.write_text("image: {}\n")
    with pytest.raises(ConfigError, match="`image` isn't a list"):
        registry.push()
    assert not registry.has and registry.values.read_text() == "image: {}\n"


def test_release_that_was_not_built(registry: Registry) -> None:
    """The archive that is missing is named, with how it is made; the others are not pushed alone."""
    (registry.release / f"images/pod-checkpointer-{__version__}.tar").unlink()
    with pytest.raises(UsageError, match=r"images/pod-checkpointer-.*\.tar doesn't exist") as caught:
        registry.push()
    assert "make dist" in caught.value.remedy and not registry.has


@pytest.mark.parametrize(
    "item", ["{release: kubernetes}", "{release: pod-checkpointer, chart: chart}"], ids=["other", "chart of their own"]
)
def test_folder_without_the_built_in_checkpointer(registry: Registry, item: str) -> None:
    """There is no value to write the digest to, so nothing is pushed."""
    chart = registry.folder / "chart"
    chart.mkdir()
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: mine, version: 1.0.0}\n")
    (registry.folder / "upgrader.yaml").write_text(f"kubernetesVersion: v1.37.1\npipeline: [{item}]\n")
    with pytest.raises(UsageError, match="no release pod-checkpointer with the built-in chart"):
        registry.push()
    assert not registry.has
