"""Small image archives and bundles."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["docker_archive", "image_archive", "tar_of"]


def tar_of(path: Path, files: Mapping[str, bytes] | Sequence[tuple[tarfile.TarInfo, bytes]]) -> Path:
    """A tar file with these entries."""
    entries = [(_entry(*item), item[1]) for item in files.items()] if isinstance(files, Mapping) else files
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for entry, content in entries:
            tar.addfile(entry, io.BytesIO(content))
    return path


def image_archive(path: Path, *names: str, layer: bytes = b"layer") -> Path:
    """An OCI archive as containerd writes it."""
    manifests: list[dict[str, Any]] = [{"annotations": {"io.containerd.image.name": name}} for name in names]
    index = json.dumps({"manifests": [*manifests, {"annotations": None}, "odd"]}).encode()
    return tar_of(path, {"oci-layout": b"{}", "index.json": index, "blobs/sha256/a": layer})


def docker_archive(path: Path, *names: str) -> Path:
    """An archive as `docker save` writes it."""
    return tar_of(path, {"manifest.json": json.dumps([{"RepoTags": list(names)}, {"RepoTags": None}]).encode()})


def _entry(name: str, content: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    return entry
