"""Whether a process works on a cluster, by the cluster's lock and by the folder's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.engine.locks.cluster_lock import ClusterLock, acquire
from upgrader.engine.locks.folder_lock import folder_lock, lock_identity
from upgrader.engine.locks.lease_object import LEASES, NAME, NAMESPACE, Holder
from upgrader.fleet import at_work as module
from upgrader.fleet.at_work import at_work
from upgrader.ports import Kube


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> FakeKube:
    fake = FakeKube()

    @contextmanager
    def open_api(kubeconfig: Path, timeout_seconds: float) -> Iterator[Kube]:
        yield fake

    monkeypatch.setattr(module, "open_api", open_api)
    return fake


def take(kube: FakeKube, folder: Path | None = None) -> ClusterLock:
    holder = Holder("ann@laptop", lock_identity(folder) if folder else "elsewhere", "20260102T000000-adopt")
    return acquire(kube, FakeClock(), holder, take_over=False, note=lambda _: None)


def test_process_elsewhere(kube: FakeKube, tmp_path: Path) -> None:
    """A process of another folder may work as long as it holds the cluster's lock; once that is released, none does."""
    lock = take(kube)
    assert at_work(Path("k"), tmp_path) == (
        "its lock, the Lease kube-system/upgrader, is held by ann@laptop, 20260102T000000-adopt"
    )
    assert lock.release()
    assert at_work(Path("k"), tmp_path) == ""


def test_process_that_was_killed_here(kube: FakeKube, tmp_path: Path) -> None:
    """Of a process of this folder that was killed, the cluster's lock says nothing more: it held the folder's, too."""
    with folder_lock(tmp_path, "ann@laptop (process 7)", FakeClock()):
        take(kube, tmp_path)
        assert at_work(Path("k"), tmp_path) == f"{tmp_path} is locked by ann@laptop (process 7)"
    assert at_work(Path("k"), tmp_path) == ""


def test_pipe_instead_of_a_lock(kube: FakeKube, tmp_path: Path) -> None:
    """In another team's folder, it isn't waited for, and says nothing."""
    assert take(kube).release()
    (tmp_path / "runs").mkdir()
    os.mkfifo(tmp_path / "runs" / ".lock")
    assert at_work(Path("k"), tmp_path).startswith("it is unknown whether it is in progress: ")


def test_unknown_is_at_work(kube: FakeKube, tmp_path: Path) -> None:
    """An API that doesn't answer, and a Lease that was removed, don't say that no process works."""
    assert take(kube).release()
    kube.unavailable = True
    assert at_work(Path("k"), tmp_path).startswith("it is unknown whether it is in progress: ")
    kube.unavailable = False
    kube.delete(LEASES, NAME, NAMESPACE)
    assert "was removed" in at_work(Path("k"), tmp_path)
