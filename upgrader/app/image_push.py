"""`upgrader images push`: the images and charts that were built, into a registry of the user's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from upgrader import __version__
from upgrader.app.values_edit import write_edited
from upgrader.app.wiring import push_archive
from upgrader.config.load import Overrides, load_settings
from upgrader.config.yaml_editing import with_values
from upgrader.errors import UsageError
from upgrader.model.settings import ReleaseSettings

__all__ = ["Pushed", "push_images"]

_CHECKPOINTER = "pod-checkpointer"
_IMAGE_END = f"-{__version__}.tar"
_CHART_END = f"-{__version__}.oci.tar"


@dataclass(frozen=True)
class Pushed:
    """What is in the registry now, as `REPOSITORY@DIGEST`, and the file that names the pod-checkpointer's image."""

    references: tuple[str, ...]
    values_file: Path


def push_images(folder: Path, release: Path, registry: str, progress: Callable[[str], None]) -> Pushed:
    """Push what `make dist` made, and write the pod-checkpointer's repository and digest into its release's values.

    `registry` is `HOST[:PORT][/PATH]`; charts are below its `charts/`, as a chart and its image have one name. Of the
    release, only the pod-checkpointer's image has to be there. Raises UsageError or ConfigError; then the values are as
    they were.
    """
    file = _values_file(folder)
    registry = registry.rstrip("/")
    archive = release / "images" / f"{_CHECKPOINTER}{_IMAGE_END}"
    if not archive.is_file():
        raise UsageError(
            f"{archive} doesn't exist",
            remedy="Create it with `make dist` in a checkout of this version, or pass --from.",
        )
    repository = f"{registry}/{_CHECKPOINTER}"
    # A file that can't be changed is said before anything is pushed.
    with_values(file, "image", {"repository": repository, "digest": "sha256:"})
    digests = {}
    for source, target in _targets(release, registry).items():
        progress(f"{source.name}: pushing it to {target}")
        digests[target] = push_archive(source, f"{target}:{__version__}")
    write_edited(file, with_values(file, "image", {"repository": repository, "digest": digests[repository]}))
    return Pushed(tuple(f"{target}@{digest}" for target, digest in digests.items()), file)


def _targets(release: Path, registry: str) -> dict[Path, str]:
    """Each archive, and the repository that it goes to."""
    images = sorted((release / "images").glob(f"*{_IMAGE_END}"))
    charts = sorted((release / "charts").glob(f"*{_CHART_END}"))
    return {
        **{path: f"{registry}/{path.name.removesuffix(_IMAGE_END)}" for path in images},
        **{path: f"{registry}/charts/{path.name.removesuffix(_CHART_END)}" for path in charts},
    }


def _values_file(folder: Path) -> Path:
    """The values of the release with the built-in chart."""
    settings = load_settings(folder, os.environ, Overrides())
    for item in settings.pipeline:
        if isinstance(item, ReleaseSettings) and item.chart is None and item.name == _CHECKPOINTER and item.values_file:
            return item.values_file
    raise UsageError(
        f"{folder / 'upgrader.yaml'} has no release {_CHECKPOINTER} with the built-in chart",
        remedy="Add it to `pipeline`, or push the archive with skopeo.",
    )
