"""Images as OCI archives for all architectures, with a list of what is in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from release.bill_of_materials import write_bill_of_materials
from release.runner_image import runner_image
from release.sources import Sources
from upgrader import __version__
from upgrader.lab.daemon_images import checkpointer_image, guard_image
from upgrader.lab.oci_archive import Image, write_platforms
from upgrader.lab.progress_port import Silent

__all__ = ["ARCHITECTURES", "write_checkpointer", "write_guard", "write_runner"]

ARCHITECTURES = ("amd64", "arm64")


def write_checkpointer(folder: Path) -> str:
    """`pod-checkpointer-VERSION.tar`, and `….ARCHITECTURE.cdx.json`; needs root, for Debian's packages.

    Returns the image's digest, `sha256:…`, which it has in every registry.
    """
    name = f"pod-checkpointer:{__version__}"
    return _write([replace(checkpointer_image(Silent(), each), name=name) for each in ARCHITECTURES], folder)


def write_guard(folder: Path) -> str:
    """`guard-VERSION.tar`. As `write_checkpointer`."""
    name = f"guard:{__version__}"
    return _write([replace(guard_image(Silent(), each), name=name) for each in ARCHITECTURES], folder)


def write_runner(folder: Path, wheel: Path, sources: Sources) -> str:
    """`upgrader-runner-VERSION.tar`, with `upgrader` from the wheel. As `write_checkpointer`."""
    return _write([runner_image(wheel, sources, each, Silent()) for each in ARCHITECTURES], folder)


def _write(images: Sequence[Image], folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    stem = images[0].name.replace(":", "-")
    for image in images:
        write_bill_of_materials(image, folder / f"{stem}.{image.architecture}.cdx.json")
    return write_platforms(images, folder / f"{stem}.tar")
