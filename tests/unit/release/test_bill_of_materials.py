"""The list of an image's contents."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from release.bill_of_materials import write_bill_of_materials
from upgrader.lab import oci_archive
from upgrader.lab.oci_archive import Image

STATUS = (
    "Package: libssl3\nStatus: install ok unpacked\nVersion: 3.0.22-1\nArchitecture: arm64\n\n"
    "Package: zlib1g\nStatus: install ok unpacked\nVersion: 1:1.2.13\nArchitecture: arm64\n\n"
)
METADATA = "Metadata-Version: 2.4\nName: Prometheus_Client\nVersion: 0.26.0\n\nVersion: of the text below\n"


def layer(path: Path, name: str, content: str) -> Path:
    """A layer with one file."""
    with tarfile.open(path, "w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content.encode())
        archive.addfile(entry, io.BytesIO(content.encode()))
    return path


def test_packages_of_every_layer_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's by dpkg's list, and Python's by their metadata, with versions as package URLs have them."""
    monkeypatch.setattr(oci_archive, "built", lambda path, build: build(path) or path)
    layers = (
        layer(tmp_path / "a", "./var/lib/dpkg/status", STATUS),
        layer(tmp_path / "b", "app/site-packages/prometheus_client-0.26.0.dist-info/METADATA", METADATA),
    )
    write_bill_of_materials(Image("pod-checkpointer:1", layers), tmp_path / "list.json")
    listed = json.loads((tmp_path / "list.json").read_text())
    assert [component["purl"] for component in listed["components"]] == [
        "pkg:deb/debian/libssl3@3.0.22-1?arch=arm64",
        "pkg:deb/debian/zlib1g@1%3A1.2.13?arch=arm64",
        "pkg:pypi/prometheus-client@0.26.0",
    ]
    assert len(listed["metadata"]["component"]["properties"]) == 2
