"""One instance acts."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from upgrader.in_cluster.checkpointer.storage.node_lock import NodeLock, changing


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    """The second gets the lock only once the first let it go; holding it again and again is fine."""
    first, second = NodeLock(tmp_path / "d/lock", 1), NodeLock(tmp_path / "d/lock", 2)
    assert first.acquire()
    assert first.acquire()
    assert not second.acquire()
    first.release()
    assert second.acquire()
    second.release()


def test_a_deleted_file_does_not_make_two_holders(tmp_path: Path) -> None:
    """Whoever holds a lock on a file that is no longer at the path notices, and stops acting."""
    path = tmp_path / "lock"
    first, second = NodeLock(path, 1), NodeLock(path, 2)
    assert first.acquire()
    path.unlink()
    assert second.acquire()
    assert not first.acquire()
    second.release()


def test_the_holder_says_where_it_answers(tmp_path: Path) -> None:
    """One that stands by learns the holder's port, whatever ports it was itself started with."""
    path = tmp_path / "lock"
    old, new = NodeLock(path, 10281), NodeLock(path, 443)
    assert new.holders_port() is None
    assert old.acquire() and not new.acquire()
    assert new.holders_port() == 10281
    old.release()
    assert new.acquire()
    assert old.holders_port() == 443
    path.write_bytes(b"\xff nonsense")
    assert old.holders_port() is None
    new.release()


def test_a_deleted_file_is_made_again(tmp_path: Path) -> None:
    """Who removes the lock's file by hand doesn't keep the node's instances from excluding each other."""
    path = tmp_path / "lock"
    first, second = NodeLock(path, 1), NodeLock(path, 2)
    assert first.acquire()
    path.unlink()
    assert first.acquire()
    assert path.exists() and not second.acquire()
    first.release()


def test_a_file_that_goes_while_it_is_locked_gives_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening and locking the file may be replaced: that lock excludes nobody, so it doesn't count."""
    path, real = tmp_path / "lock", fcntl.flock
    lock = NodeLock(path, 1)

    def replaced(handle: int, operation: int) -> None:
        path.unlink()
        real(handle, operation)

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", replaced)
        assert not lock.acquire()
    assert lock.acquire()
    lock.release()


def test_a_change_waits_for_the_one_before(tmp_path: Path) -> None:
    """Who wants to change files gets its turn as soon as the other process is done, and none while it isn't."""
    path, waits = tmp_path / "d/change", 0
    with changing(path, 0) as first, changing(path, 0) as second:
        assert (first, second) == (True, False)
    holder = changing(path, 0)
    assert holder.__enter__()

    def sleep(seconds: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 3:
            holder.__exit__(None, None, None)

    with changing(path, 5, sleep) as alone:
        assert alone
    assert waits == 3


def test_a_lock_that_cannot_be_made_is_not_held(tmp_path: Path) -> None:
    """A disk that refuses the lock's file doesn't keep a pass from its work: that is atomic file by file."""
    (tmp_path / "d").write_text("no folder")
    with changing(tmp_path / "d/change", 5) as alone:
        assert not alone
