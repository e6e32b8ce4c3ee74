"""An interrupted `lab up` leaves nothing behind, at once or after `lab down`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.lab.commands import UPGRADER, lab_command
from tests.e2e.lab.machine_state import traces
from upgrader.lab import Lab
from upgrader.lab.registry import find


@pytest.mark.parametrize("phase", ["control plane", "other nodes"])
def test_an_interrupted_up_leaves_nothing_behind(name: str, tmp_path: Path, phase: str) -> None:
    """Ctrl-C in a phase of `lab up` ends with exit 130, and no process, mount, interface, group or file is left."""
    prefix = _interrupt(name, tmp_path, phase, "INT")
    assert traces(name, prefix, tmp_path / ".lab" / name) == []


def test_down_after_up_was_killed_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    """After a SIGKILL of `lab up`, `lab down` removes everything."""
    prefix = _interrupt(name, tmp_path, "other nodes", "KILL")
    removed = lab_command(tmp_path, "down", "--name", name)
    assert removed.returncode == 0, removed.stderr
    assert traces(name, prefix, tmp_path / ".lab" / name) == []


def test_up_after_up_was_killed_begins_anew(name: str, tmp_path: Path) -> None:
    """The next `lab up` removes an incomplete control plane, and makes the whole lab."""
    _interrupt(name, tmp_path, "control plane", "KILL")
    made = lab_command(tmp_path, "up", "--workers", "1", "--name", name)
    assert made.returncode == 0, made.stderr
    assert [line.kubernetes for line in Lab.find(name).status()] == ["Ready", "Ready"]


def _interrupt(name: str, home: Path, phase: str, signal: str) -> str:
    """Start `lab up`, send it a signal when it reports that phase, and return the lab's prefix."""
    command = [str(UPGRADER), "-C", str(home), "lab", "up", "--workers", "1", "--name", name]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        output = []
        for line in process.stderr:
            output.append(line)
            if line.startswith(phase):
                break
        placement = find(name)
        assert placement, "".join(output)
        subprocess.run(["kill", f"-{signal}", str(process.pid)], check=True)
        output.append(process.stderr.read())
    assert process.returncode == (130 if signal == "INT" else -9), "".join(output)
    return placement.prefix
