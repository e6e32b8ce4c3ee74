"""The lab commands for tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["UPGRADER", "lab_command"]

UPGRADER = Path(__file__).resolve().parents[3] / ".venv" / "bin" / "upgrader"


def lab_command(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `upgrader -C HOME lab ARGUMENTS`; any exit code is returned."""
    command = [str(UPGRADER), "-C", str(home), "lab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
