"""The pod-checkpointer's images as OCI archives, each with a list of what is in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from release.bill_of_materials import write_bill_of_materials
from upgrader import __version__
from upgrader.lab.checkpointer_image import checkpointer_image
from upgrader.lab.oci_archive import write_archive
from upgrader.lab.progress_port import Silent

__all__ = ["ARCHITECTURES", "write_images"]

ARCHITECTURES = ("amd64", "arm64")


def write_images(folder: Path) -> None:
    """`pod-checkpointer-VERSION-ARCHITECTURE.tar` and `….cdx.json`; needs root, for Debian's packages."""
    folder.mkdir()
    for architecture in ARCHITECTURES:
        built = checkpointer_image(Silent(), architecture)
        image = replace(built, name=f"pod-checkpointer:{__version__}")
        stem = f"pod-checkpointer-{__version__}-{architecture}"
        write_archive([image], folder / f"{stem}.tar")
        write_bill_of_materials(image, folder / f"{stem}.cdx.json")
