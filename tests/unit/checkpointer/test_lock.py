"""One instance acts."""

from __future__ import annotations

from pathlib import Path

from upgrader.checkpointer.storage.node_lock import NodeLock


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
