"""The charts as archives, as `helm install` and `helm push` take them."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

from release.sources import Sources

__all__ = ["pack_charts"]


def pack_charts(sources: Sources, folder: Path) -> None:
    """`CHART-VERSION.tgz` of each. Helm decides what is in them; its times and owners are dropped."""
    folder.mkdir()
    with tempfile.TemporaryDirectory() as temporary:
        charts = [str(path.parent) for path in sorted(sources.root.glob("charts/*/Chart.yaml"))]
        command = [sources.tool("helm"), "package", *charts, "--destination", temporary]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        for packed in sorted(Path(temporary).glob("*.tgz")):
            (folder / packed.name).write_bytes(_same_bytes(packed))


def _same_bytes(packed: Path) -> bytes:
    content = io.BytesIO()
    with tarfile.open(packed) as before, tarfile.open(fileobj=content, mode="w", format=tarfile.GNU_FORMAT) as after:
        for entry in sorted(before, key=lambda entry: entry.name):
            plain = tarfile.TarInfo(entry.name)
            plain.size, plain.type, plain.mode = entry.size, entry.type, 0o755 if entry.isdir() else 0o644
            after.addfile(plain, before.extractfile(entry))
    return gzip.compress(content.getvalue(), mtime=0)
