"""What is at paths of a controller, as a real shell says."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from testkit.fakes.hosts import FakeHosts
from upgrader.adopt.files_of_host import files_of_host
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult


def _shell() -> FakeHosts:
    def run(_: Host, command: Sequence[str], __: bytes) -> CommandResult:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return CommandResult(0, done.stdout, done.stderr)

    hosts = FakeHosts()
    hosts.commands["sh"] = run
    return hosts


def test_each_kind_is_told(tmp_path: Path) -> None:
    """Through symbolic links, with mode and owner; what isn't there isn't told."""
    (tmp_path / "file").touch()
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("missing")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
    names = ("file", "link", "dangling", "missing", "pipe", "socket", "-n")
    asked = [str(tmp_path / name) for name in names]
    found = files_of_host(_shell(), Host("c", "10.0.0.1"), [*asked, str(tmp_path), "/dev/null"])
    assert {Path(path).name: str(file) for path, file in found.items()} == {
        tmp_path.name: "a folder",
        "file": "a file",
        "link": "a file",
        "pipe": "a pipe",
        "socket": "a socket",
        "null": "a device",
    }
    link = found[str(tmp_path / "link")]
    assert (link.mode & 0o777, link.user, link.group) == (0o640, os.getuid(), os.getgid())


def test_a_file_with_many_texts_is_no_command_that_is_too_long(tmp_path: Path) -> None:
    """Each of them may be a path; a login shell takes 128 KiB."""
    paths = [str(tmp_path / f"{number}-{'x' * 100}") for number in range(250)]
    for path in paths[::2]:
        Path(path).touch()
    hosts = _shell()
    assert sorted(files_of_host(hosts, Host("c", "10.0.0.1"), paths)) == sorted(paths[::2])
    assert max(len(" ".join(command)) for _, command in hosts.ran) < 128 << 10
