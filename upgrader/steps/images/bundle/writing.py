"""Writes a bundle."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from upgrader import __version__
from upgrader.errors import UsageError
from upgrader.model.bundle_index import BundledChart, BundledImages, BundleIndex
from upgrader.model.json_values import to_json
from upgrader.model.version import KubernetesVersion
from upgrader.steps.images.bundle.image_archive import image_names
from upgrader.steps.images.bundle.reading import INDEX, SUMS
from upgrader.steps.images.bundle.tar_entries import NotATar

__all__ = ["names_in", "write_bundle"]


def names_in(archive: Path) -> tuple[str, ...]:
    """The full names of an image archive's images. Raises UsageError for what is none."""
    try:
        with archive.open("rb") as file:
            return image_names(file.fileno())
    except (NotATar, OSError) as error:
        raise UsageError(
            f"{archive} is not an image archive: {error}",
            remedy="Write one with `docker save`, `ctr images export` or `skopeo copy`, not compressed.",
        ) from error


def write_bundle(
    path: Path, version: KubernetesVersion, archives: Iterable[Path], charts: Mapping[str, Path]
) -> BundleIndex:
    """Write it beside its place, then move it there; `charts` are files by their names below `charts/`.

    Raises UsageError where it can't be written, or an archive is none.
    """
    sources: dict[str, Path] = {}
    images = []
    for archive in archives:
        names = names_in(archive)
        file = _file_name(names[0], sources)
        sources[file] = archive
        images.append(BundledImages(file, _sha256(archive), archive.stat().st_size, names))
    files = []
    for name, source in sorted(charts.items()):
        sources[f"charts/{name}"] = source
        files.append(BundledChart(f"charts/{name}", _sha256(source), source.stat().st_size))
    index = BundleIndex(version, __version__, tuple(images), tuple(files))
    text = (json.dumps(to_json(index, mask=False), indent=2) + "\n").encode()
    sums = [(hashlib.sha256(text).hexdigest(), INDEX), *((item.sha256, item.file) for item in index.files)]
    part = path.with_name(f".{path.name}.part")
    try:
        with tarfile.open(part, "w", format=tarfile.USTAR_FORMAT) as bundle:
            _add(bundle, INDEX, io.BytesIO(text), len(text))
            content = "".join(f"{digest}  {name}\n" for digest, name in sums).encode()
            _add(bundle, SUMS, io.BytesIO(content), len(content))
            for item in index.files:
                with sources[item.file].open("rb") as stream:
                    _add(bundle, item.file, stream, item.size)
        os.replace(part, path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} can't be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return index


def _add(bundle: tarfile.TarFile, name: str, content: io.BufferedIOBase, size: int) -> None:
    """The same bytes from the same content: no times, no owners."""
    entry = tarfile.TarInfo(name)
    entry.size = size
    bundle.addfile(entry, content)


def _file_name(image: str, taken: Mapping[str, Path]) -> str:
    stem = re.sub(r"[^\w.-]+", "_", image.rpartition("/")[2])
    number = sum(name.startswith(f"images/{stem}") for name in taken)
    return f"images/{stem}{f'-{number}' if number else ''}.tar"


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
