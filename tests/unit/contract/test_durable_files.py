"""Files of a host that are replaced whole."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from upgrader.contract.durable_files import rewrite, sync_folder


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """Its mode stays, what an interruption left beside it doesn't matter, and nothing is left beside it."""
    file = tmp_path / "etcd.yaml"
    file.write_text("old")
    file.chmod(0o640)
    (tmp_path / ".tmp-etcd.yaml.upgrader-new").write_text("half of")
    rewrite(str(file), b"new")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o640)
    assert os.listdir(tmp_path) == ["etcd.yaml"]


def test_a_system_without_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner's journal is written on systems for which Python has no such calls, as macOS."""
    for call in ("getxattr", "setxattr"):
        monkeypatch.delattr(os, call)
    (tmp_path / "point.json").write_text("old")
    rewrite(str(tmp_path / "point.json"), b"new")
    assert (tmp_path / "point.json").read_text() == "new"


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EBADF, errno.EOPNOTSUPP])
def test_a_file_system_that_syncs_no_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """CIFS, and what containers share with their host: the files themselves are synced, and that is all there is."""
    sync = os.fsync

    def only_files(opened: int) -> None:
        if stat.S_ISDIR(os.fstat(opened).st_mode):
            raise OSError(number, os.strerror(number))
        sync(opened)

    monkeypatch.setattr(os, "fsync", only_files)
    rewrite(str(tmp_path / "point.json"), b"kept")
    assert (tmp_path / "point.json").read_text() == "kept"


def test_a_folder_that_is_not_on_the_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other error is one: the name may be lost."""

    def broken(opened: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output error"):
        sync_folder(str(tmp_path))


def test_a_file_that_was_not_there(tmp_path: Path) -> None:
    """Only its owner can read it."""
    rewrite(str(tmp_path / "point.json"), b"kept")
    assert (tmp_path / "point.json").stat().st_mode & 0o777 == 0o600


def test_what_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, say: nothing is left beside it either."""
    file = tmp_path / "etcd.yaml"
    file.write_text("old")

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        rewrite(str(file), b"new")
    assert file.read_text() == "old" and os.listdir(tmp_path) == ["etcd.yaml"]
