"""Only regular files are read, and none is waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from upgrader.config.plain_file import open_plain, read_plain


def test_content(tmp_path: Path) -> None:
    """A file, and one behind a link, is read as a whole; one that is too large isn't."""
    (tmp_path / "file").write_bytes(b"1234")
    (tmp_path / "link").symlink_to("file")
    assert read_plain(tmp_path / "link", 4) == b"1234"
    with pytest.raises(OSError, match="it has more than 3 bytes"):
        read_plain(tmp_path / "file", 3)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("pipe", "it is a pipe"),
        ("device", "it is a pipe, a socket or a device"),
        ("folder", "Is a directory"),
        ("circle", "Too many levels"),
        ("x" * 300, "File name too long"),
        ("a\0b", "no file can have this name"),
    ],
)
def test_anything_else(tmp_path: Path, name: str, why: str) -> None:
    """The error is the system's kind, with the file's name."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "circle").symlink_to("circle")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match=why) as caught:
        open_plain(tmp_path / name)
    assert caught.value.filename == str(tmp_path / name)
    assert len(os.listdir("/proc/self/fd")) == before, "nothing stays open"
