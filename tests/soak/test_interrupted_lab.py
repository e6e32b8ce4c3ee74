"""`lab up` that is interrupted while its control plane is made, or while other nodes join."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.lab_commands import free_name, interrupted_up, lab_command
from testkit.lab_traces import traces
from upgrader.lab.lifecycle import Lab


@pytest.fixture
def name() -> Iterator[str]:
    """A name for a lab that is removed after the test."""
    with free_name() as value:
        yield value


def test_an_interrupted_control_plane_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    """Ctrl-C ends it with exit 130, and no process, mount, interface, group or file is left."""
    prefix = interrupted_up(name, tmp_path, "control plane", "INT")
    assert traces(name, prefix, tmp_path / ".lab" / name) == []


def test_up_after_up_was_killed_begins_anew(name: str, tmp_path: Path) -> None:
    """The next `lab up` removes an incomplete control plane, and makes the whole lab."""
    interrupted_up(name, tmp_path, "control plane", "KILL")
    made = lab_command(tmp_path, "up", "--workers", "1", "--name", name)
    assert made.returncode == 0, made.stderr
    assert [line.kubernetes for line in Lab.find(name).status()] == ["Ready", "Ready"]


def test_an_interrupted_up_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    """Ctrl-C while nodes join ends `lab up` with exit 130, and no process, mount, interface, group or file is left."""
    prefix = interrupted_up(name, tmp_path, "other nodes", "INT")
    assert traces(name, prefix, tmp_path / ".lab" / name) == []


def test_down_after_up_was_killed_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    """After a SIGKILL of `lab up`, `lab down` removes everything."""
    prefix = interrupted_up(name, tmp_path, "other nodes", "KILL")
    removed = lab_command(tmp_path, "down", "--name", name)
    assert removed.returncode == 0, removed.stderr
    assert traces(name, prefix, tmp_path / ".lab" / name) == []
