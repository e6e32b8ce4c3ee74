"""`upgrader images push`: the images that were built, into a registry of the user's own."""

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

__all__ = ["PushedImage", "push_images"]

_CHECKPOINTER = "pod-checkpointer"


@dataclass(frozen=True)
class PushedImage:
    """An image, where it is now, and the file that names it."""

    repository: str
    digest: str
    values_file: Path


def push_images(folder: Path, archives: Path, registry: str, progress: Callable[[str], None]) -> PushedImage:
    """Push the pod-checkpointer's image of `make dist`, and write repository and digest into the release's values.

    `registry` is `HOST[:PORT][/PATH]`. Raises UsageError or ConfigError; then the values are as they were.
    """
    file = _values_file(folder)
    archive = archives / f"{_CHECKPOINTER}-{__version__}.tar"
    if not archive.is_file():
        raise UsageError(
            f"{archive} doesn't exist", remedy="Make it with `make dist` in a checkout of this version, or name --from."
        )
    repository = f"{registry.rstrip('/')}/{_CHECKPOINTER}"
    # A file that can't be changed is said before anything is pushed.
    with_values(file, "image", {"repository": repository, "digest": "sha256:"})
    progress(f"{archive.name}: pushing it to {repository}")
    digest = push_archive(archive, f"{repository}:{__version__}")
    text = with_values(file, "image", {"repository": repository, "digest": digest})
    write_edited(file, text)
    return PushedImage(repository, digest, file)


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
