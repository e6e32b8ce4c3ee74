"""`upgrader bundle`: one file with the images and charts of an upgrade."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from upgrader.app.wiring import copy_image, intended_steps, open_renderer
from upgrader.config.load import Overrides, load_settings
from upgrader.errors import UsageError
from upgrader.model.bundle_index import BundleIndex
from upgrader.model.image_name import full_name
from upgrader.model.images import images_in
from upgrader.model.version import KubernetesVersion
from upgrader.steps.images.bundle.reading import open_bundle
from upgrader.steps.images.bundle.writing import names_in, write_bundle
from upgrader.steps.release.plan import IntendedRelease

__all__ = ["create_bundle", "verify_bundle"]


def create_bundle(folder: Path, path: Path, target: KubernetesVersion | None, archives: Path | None) -> BundleIndex:
    """Write a bundle with the images and charts of a folder's releases at the target; None: the file's.

    Images come from the archives in the folder `archives`; those that none has, from their registries. Asks no cluster.
    Raises UsageError or HelmError.
    """
    settings = load_settings(folder, os.environ, Overrides(target=target))
    with open_renderer() as helm:
        steps = intended_steps(settings, helm, offline=True)
    releases = [step for step in steps if isinstance(step, IntendedRelease)]
    wanted = dict.fromkeys(full_name(name) for item in releases for name in images_in(item.manifest).values() if name)
    if not wanted:
        raise UsageError(f"no release of {folder} has an image", remedy="Add the releases to `pipeline`.")
    given = _archives(archives) if archives else {}
    with TemporaryDirectory(dir=path.absolute().parent) as scratch:
        found: dict[Path, None] = {}
        for number, name in enumerate(wanted):
            source = given.get(name)
            if source is None:
                source = Path(scratch) / f"{number}.tar"
                copy_image(name, source)
            found[source] = None
        charts = dict(entry for item in releases for entry in _chart_files(item))
        write_bundle(path.absolute(), settings.target, found, charts)
    return verify_bundle(path)


def verify_bundle(path: Path) -> BundleIndex:
    """The content of a bundle. Raises UsageError if it doesn't match its checksums."""
    with open_bundle(path) as bundle:
        return bundle.index


def _archives(folder: Path) -> dict[str, Path]:
    """The image archives of a folder by the full names of their images."""
    return {name: path for path in sorted(folder.glob("*.tar")) for name in names_in(path)}


def _chart_files(item: IntendedRelease) -> Iterator[tuple[str, Path]]:
    """The files of a release's chart by their names in the bundle."""
    chart, name = item.spec.chart, item.spec.name
    if chart.is_file():
        yield f"{name}/{chart.name}", chart
        return
    for path in sorted(chart.rglob("*")):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(chart).parts):
            yield f"{name}/{path.relative_to(chart)}", path
