"""One instance acts."""

from __future__ import annotations

from pathlib import Path

from upgrader.checkpointer.lock import NodeLock


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    """The second gets the lock only once the first let it go; holding it again and again is fine."""
    first, second = NodeLock(tmp_path / "d/lock"), NodeLock(tmp_path / "d/lock")
    assert first.acquire()
    assert first.acquire()
    assert not second.acquire()
    first.release()
    assert second.acquire()
    second.release()


def test_a_deleted_file_does_not_make_two_holders(tmp_path: Path) -> None:
    """Whoever holds a lock on a file that is no longer at the path notices, and stops acting."""
    path = tmp_path / "lock"
    first, second = NodeLock(path), NodeLock(path)
    assert first.acquire()
    path.unlink()
    assert second.acquire()
    assert not first.acquire()
    second.release()
