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


@pytest.mark.parametrize("link", ["folder", "folder/file"])
def test_part_that_has_become_a_link(tmp_path: Path, link: str) -> None:
    """Without links, a path leads to the file that it is of, or nowhere: no folder of it may be a link either."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_bytes(b"1")
    assert read_plain(tmp_path / "folder/file", links=False) == b"1"
    (tmp_path / link).rename(tmp_path / "moved")
    (tmp_path / link).symlink_to(tmp_path / "moved")
    before = len(os.listdir("/proc/self/fd"))
    assert read_plain(tmp_path / "folder/file") == b"1"
    with pytest.raises(OSError, match=r"Not a directory|Too many levels") as caught:
        read_plain(tmp_path / "folder/file", links=False)
    assert caught.value.filename == str(tmp_path / "folder/file")
    assert len(os.listdir("/proc/self/fd")) == before, "nothing stays open"
