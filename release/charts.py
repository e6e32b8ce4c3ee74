"""The charts as archives, as `helm install` takes them, and as registries have them."""

from __future__ import annotations

import gzip
import io
import json
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path

import yaml

from release.sources import Sources
from upgrader import __version__
from upgrader.lab.oci_archive import Blob, write_artifact

__all__ = ["pack_charts"]

_HELM = "application/vnd.cncf.helm"


def pack_charts(sources: Sources, folder: Path) -> None:
    """`CHART-VERSION.tgz` of each, and `CHART-VERSION.oci.tar`, which has the same archive for a registry.

    Helm decides what is in them; its times and owners are dropped. So is the time that `helm push` would write into the
    manifest, which gives the chart another digest with each push.
    """
    folder.mkdir()
    with tempfile.TemporaryDirectory() as temporary:
        charts = [str(path.parent) for path in sorted(sources.root.glob("charts/*/Chart.yaml"))]
        command = [sources.tool("helm"), "package", *charts, "--destination", temporary]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        for packed in sorted(Path(temporary).glob("*.tgz")):
            content = _same_bytes(packed)
            (folder / packed.name).write_bytes(content)
            metadata = json.dumps(_metadata(content), sort_keys=True).encode()
            parts = Blob(f"{_HELM}.config.v1+json", metadata), Blob(f"{_HELM}.chart.content.v1.tar+gzip", content)
            write_artifact(f"{packed.stem}:{__version__}", *parts, folder / f"{packed.stem}.oci.tar")


def _metadata(content: bytes) -> dict[str, object]:
    """Chart.yaml, which Helm has as JSON in an artifact's configuration."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        (name,) = (each for each in archive.getnames() if re.fullmatch(r"[^/]+/Chart\.yaml", each))
        stream = archive.extractfile(name)
        assert stream, "it is a file"
        metadata: dict[str, object] = yaml.safe_load(stream)
        return metadata


def _same_bytes(packed: Path) -> bytes:
    content = io.BytesIO()
    with tarfile.open(packed) as before, tarfile.open(fileobj=content, mode="w", format=tarfile.GNU_FORMAT) as after:
        for entry in sorted(before, key=lambda entry: entry.name):
            plain = tarfile.TarInfo(entry.name)
            plain.size, plain.type, plain.mode = entry.size, entry.type, 0o755 if entry.isdir() else 0o644
            after.addfile(plain, before.extractfile(entry))
    return gzip.compress(content.getvalue(), mtime=0)
