"""What is at paths of a controller, as a real shell says."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from testkit.fakes.hosts import FakeHosts
from upgrader.adopt.files_of_host import files_of_host
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult


def _shell() -> FakeHosts:
    def run(_: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        done = subprocess.run(command, input=stdin.decode(), capture_output=True, text=True, check=True)
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


def test_what_is_asked_for_is_no_argument(tmp_path: Path) -> None:
    """A text of a configuration file may be a key, and everybody can read the arguments of a process; nor are many of
    them a command that is too long.
    """
    paths = [str(tmp_path / f"{number}-{'x' * 100}") for number in range(2500)]
    for path in paths[::2]:
        Path(path).touch()
    hosts = _shell()
    assert sorted(files_of_host(hosts, Host("c", "10.0.0.1"), paths)) == sorted(paths[::2])
    assert hosts.ran and not any(str(tmp_path) in word for _, command in hosts.ran for word in command)


@pytest.mark.parametrize("name", [" a b ", "a\\nb", "$(id)", "'", "ä"])
def test_each_name_is_found_as_it_is_written(tmp_path: Path, name: str) -> None:
    """With spaces, and with what a shell would take for something else."""
    path = str(tmp_path / name)
    Path(path).touch()
    assert list(files_of_host(_shell(), Host("c", "10.0.0.1"), [path])) == [path]


def test_a_line_break_makes_no_second_question(tmp_path: Path) -> None:
    """Such a path isn't told, nor is another one that begins after the break."""
    (tmp_path / "file").touch()
    assert files_of_host(_shell(), Host("c", "10.0.0.1"), [f"{tmp_path}/x\n{tmp_path}/file"]) == {}
