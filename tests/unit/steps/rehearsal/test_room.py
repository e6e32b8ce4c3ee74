"""The room that a rehearsal takes on a controller's disk leaves the kubelet's pods alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.rehearsal import room

TOTAL = 100 << 30


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of 100 GiB, with 14 GiB free, which the kubelet uses, too, and containerd another one."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=14 << 30, total=TOTAL))
    monkeypatch.setattr(room, "_KUBELET", str(tmp_path))
    monkeypatch.setattr(room, "_CONTAINERD", "/proc")


def test_copies_that_would_have_pods_evicted_are_refused(tmp_path: Path) -> None:
    """Etcd's data is on the kubelet's disk, unless it has one of its own."""
    room.require_disk(str(tmp_path / "missing" / "yet"), 4 << 30)
    with pytest.raises(
        Failed, match="14,336 MiB of free space, 15,360 MiB are needed: with less than 10 % free, the k"
    ):
        room.require_disk(str(tmp_path), 5 << 30)


@pytest.mark.parametrize("kubelet", ["", "/proc"])
def test_more_of_the_disk_of_images_is_left(kubelet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most nodes have one disk for both, and the higher limit holds; images may have one without the kubelet's."""
    monkeypatch.setattr(room, "_CONTAINERD", str(tmp_path))
    monkeypatch.setattr(room, "_KUBELET", kubelet or str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=19 << 30, total=TOTAL))
    room.require_disk(str(tmp_path), 4 << 30)
    with pytest.raises(Failed, match="20,480 MiB are needed: with less than 15 % free, the kubelet evicts pods"):
        room.require_disk(str(tmp_path), 5 << 30)
    monkeypatch.setattr(room, "_KUBELET", "/nowhere")
    room.require_disk(str(tmp_path), 18 << 30)


@pytest.mark.parametrize("kubelet", ["/proc", "/nowhere"])
def test_a_disk_that_is_not_the_kubelets_may_be_used(
    kubelet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is evicted for it: on a disk of etcd's own, and on a host without a kubelet."""
    monkeypatch.setattr(room, "_KUBELET", kubelet)
    room.require_disk(str(tmp_path), 13 << 30)
    with pytest.raises(Failed, match="14,336 MiB of free space, 14,592 MiB are needed"):
        room.require_disk(str(tmp_path), 14 << 30)
