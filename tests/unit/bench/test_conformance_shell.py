"""The shell of the busybox image, which stands in for upstream's ash."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import bench.conformance

SCRIPT = Path(bench.conformance.__file__).parent / "rootfs" / "busybox" / "bin" / "sh"


def told(folder: Path, variables: dict[str, str]) -> list[str]:
    """What its shell of those two was told: that one's name, and the arguments."""
    text = SCRIPT.read_text()
    for shell in ("bash", "busybox"):
        (folder / shell).write_text(f'#!/bin/bash\nprintf "%s\\n" {shell} "$@"\n')
        (folder / shell).chmod(0o755)
        text = text.replace(f'exec -a "$0" /bin/{shell} ', f'exec -a "$0" {folder}/{shell} ')
    (folder / "sh").write_text(text)
    (folder / "sh").chmod(0o755)
    command = [str(folder / "sh"), "-c", "env | sort", "a name"]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize(
    ("variables", "shell"),
    [
        ({}, "busybox"),
        ({"A_1": "with-a = and\na line", "_b": ""}, "busybox"),
        ({"A_1": "1", "data-1": "value-1"}, "bash"),
        ({"1a": ""}, "bash"),
    ],
)
def test_only_names_that_ash_would_drop_make_it_another_shell(
    tmp_path: Path, variables: dict[str, str], shell: str
) -> None:
    """Specs read what ash says of an error, and others read variables of any name: each gets the shell it needs."""
    assert told(tmp_path, variables) == [shell, "-c", "env | sort", "a name"]
