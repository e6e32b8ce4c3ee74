"""The lab commands for tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testkit.command import REPOSITORY
from testkit.waiting import stretched
from upgrader.lab.existing_labs import find
from upgrader.lab.lifecycle import Lab

__all__ = ["free_name", "interrupted_up", "lab_command", "made_lab"]

_UPGRADER = REPOSITORY / ".venv" / "bin" / "upgrader"


@contextmanager
def free_name() -> Iterator[str]:
    """A name for a lab, which is removed at the end if it was made."""
    name = f"e2e-lab-{os.getpid()}"
    yield name
    if find(name):
        Lab.find(name).down()


@contextmanager
def made_lab(home: Path, kind: str, *options: str) -> Iterator[Lab]:
    """A lab from `lab up OPTIONS`, which is removed at the end, even if it is incomplete."""
    name = f"e2e-{kind}-{os.getpid()}"
    made = lab_command(home, "up", *options, "--name", name)
    try:
        assert made.returncode == 0, made.stderr
        yield Lab.find(name)
    finally:
        if find(name):
            Lab.find(name).down()


def lab_command(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `upgrader -C HOME lab ARGUMENTS`; any exit code is returned."""
    command = [str(_UPGRADER), "-C", str(home), "lab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=stretched(600))


def interrupted_up(name: str, home: Path, phase: str, signal: str) -> str:
    """Start `lab up` with one worker, send it a signal ("INT", "KILL") when it reports that phase, and return the lab's
    prefix.
    """
    command = [str(_UPGRADER), "-C", str(home), "lab", "up", "--workers", "1", "--name", name]
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
