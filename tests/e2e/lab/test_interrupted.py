"""An interrupted `lab up` leaves nothing behind, at once or after `lab down`. `make soak` interrupts it earlier."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.lab_commands import interrupted_up, lab_command
from testkit.lab_traces import traces

pytestmark = pytest.mark.lab("own")


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
