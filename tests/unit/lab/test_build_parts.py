"""A lab's parts are made at the same time where they can be."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from testkit.waiting import stretched
from upgrader.errors import LabError
from upgrader.lab import build_parts
from upgrader.lab.build_parts import prepare
from upgrader.lab.oci_archive import Image
from upgrader.lab.origin import Programs
from upgrader.lab.progress_port import Silent
from upgrader.lab.spec import LabSpec


class Fetched:
    """An origin whose programs come when Debian's parts have been begun."""

    def __init__(self, begun: threading.Barrier, fails: bool) -> None:
        self._begun, self._fails = begun, fails

    def programs(self, version: str) -> Programs:
        self._begun.wait(stretched(60))
        if self._fails:
            raise LabError("the download is refused")
        return Programs(version, {})

    def etcd(self) -> Programs:
        return Programs("etcd", {})

    def images(self) -> list[Image]:
        return []

    def has(self, _: str) -> bool:
        return False


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> threading.Barrier:
    """Three parts of Debian wait for one another and for the programs; each is then in `made`."""
    begun = threading.Barrier(4)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def made(*_: Any) -> Path:
        begun.wait(stretched(60))
        return tmp_path

    for name in ("node_root", "base_layer", "checkpointer_image"):
        monkeypatch.setattr(build_parts, name, made)
    monkeypatch.setattr(build_parts, "node_files", lambda: tmp_path)
    monkeypatch.setattr(build_parts, "images", lambda *_: [])
    monkeypatch.setattr(build_parts, "store", lambda *_: tmp_path)
    return begun


def test_debian_is_unpacked_while_kubernetes_is_downloaded(begun: threading.Barrier, tmp_path: Path) -> None:
    """None of these waits for another one; the node's root has all of them."""
    parts = prepare(LabSpec("one"), Fetched(begun, fails=False), Silent())
    assert parts.store == tmp_path and len(parts.lower) == 3


def test_download_that_fails(begun: threading.Barrier) -> None:
    """Its error is that of the command."""
    with pytest.raises(LabError, match="the download is refused"):
        prepare(LabSpec("one"), Fetched(begun, fails=True), Silent())
