"""Whatever ends `lab up`, nothing is left behind, at once or after `lab down`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.lab.commands import UPGRADER, lab_command
from tests.e2e.lab.machine_state import traces
from upgrader.lab import Lab
from upgrader.lab.registry import find


@pytest.mark.parametrize("phase", ["nodes", "control plane", "other nodes", "kube-proxy"])
def test_an_interrupted_up_leaves_nothing_behind(name: str, tmp_path: Path, phase: str) -> None:
    """Ctrl-C in any phase of `lab up` ends with exit 130, and no process, mount, interface, group or file is left."""
    prefix = _interrupt(name, tmp_path, phase, "INT")
    assert traces(name, prefix, tmp_path / ".lab" / name) == []


@pytest.mark.parametrize("phase", ["nodes", "other nodes"])
def test_down_after_up_was_killed_leaves_nothing_behind(name: str, tmp_path: Path, phase: str) -> None:
    """After kill -9 of `lab up` nobody cleans up; a later `lab down` does."""
    prefix = _interrupt(name, tmp_path, phase, "KILL")
    removed = lab_command(tmp_path, "down", "--name", name)
    assert removed.returncode == 0, removed.stderr
    assert traces(name, prefix, tmp_path / ".lab" / name) == []


def test_up_after_up_was_killed_begins_anew(name: str, tmp_path: Path) -> None:
    """Half a control plane can't be finished: the next `lab up` removes it, and makes the whole lab."""
    _interrupt(name, tmp_path, "control plane", "KILL")
    made = lab_command(tmp_path, "up", "--workers", "1", "--name", name)
    assert made.returncode == 0, made.stderr
    assert [line.kubernetes for line in Lab.find(name).status()] == ["Ready", "Ready"]


def _interrupt(name: str, home: Path, phase: str, signal: str) -> str:
    """Start `lab up`, send it a signal when it says that the phase begins, and return the lab's prefix."""
    command = [str(UPGRADER), "-C", str(home), "lab", "up", "--workers", "1", "--name", name]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith(phase):
                break
        placement = find(name)
        assert placement, "".join(said)
        subprocess.run(["kill", f"-{signal}", str(process.pid)], check=True)
        said.append(process.stderr.read())
    assert process.returncode == (130 if signal == "INT" else -9), "".join(said)
    return placement.prefix
