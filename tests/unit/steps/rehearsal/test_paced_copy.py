"""The second copy of etcd's data is written so that the cluster's own etcd doesn't wait for it."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from upgrader.onhost.rehearsal.paced_copy import copy_data


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Data of 10 MiB, in two folders."""
    made = tmp_path / "scratch"
    (made / "member" / "snap").mkdir(parents=True)
    (made / "member" / "snap" / "db").write_bytes(os.urandom(10 << 20))
    (made / "member" / "wal").write_bytes(b"entries")
    return made


def test_the_disk_is_left_to_others_for_as_long_as_it_took(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece is on the disk before the next one, so that no one's `fsync` waits for more than one; the slower the
    disk is, the longer are the pauses.
    """
    now, did = [0.0], list[object]()

    def on_disk(_: int) -> None:
        now[0] += 3.0
        did.append("on disk")

    monkeypatch.setattr(fcntl, "ioctl", _refused)
    monkeypatch.setattr(os, "fdatasync", on_disk)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", did.append)
    copy_data(str(source), str(tmp_path / "target.etcd"))
    assert did == ["on disk", 3.0] * 4, "three of the database, and one of the log"


def test_the_copy_has_all_and_no_one_else_can_read_it(source: Path, tmp_path: Path) -> None:
    """Whatever the umask is."""
    target = tmp_path / "target.etcd"
    before = os.umask(0)
    try:
        copy_data(str(source), str(target))
    finally:
        os.umask(before)
    for name in ("member/snap/db", "member/wal"):
        assert (target / name).read_bytes() == (source / name).read_bytes()
    modes = {each.relative_to(target).as_posix(): each.stat().st_mode & 0o777 for each in target.rglob("*")}
    assert modes == {"member": 0o700, "member/snap": 0o700, "member/snap/db": 0o600, "member/wal": 0o600}
    with pytest.raises(FileExistsError):
        copy_data(str(source), str(target))


def test_a_file_system_that_clones_files_writes_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as XFS."""
    cloned = list[str]()

    def clone(to: int, _: int, given: int) -> None:
        cloned.append(os.path.basename(os.readlink(f"/proc/self/fd/{given}")))
        os.write(to, b"cloned")

    monkeypatch.setattr(fcntl, "ioctl", clone)
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it writes"))
    copy_data(str(source), str(tmp_path / "target.etcd"))
    assert sorted(cloned) == ["db", "wal"]
    assert (tmp_path / "target.etcd" / "member" / "snap" / "db").read_bytes() == b"cloned"


def _refused(*_: object) -> None:
    raise OSError("not supported")
