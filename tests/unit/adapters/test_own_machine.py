"""What `upgrader doctor` asks of the machine that it runs on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from upgrader.adapters import own_machine
from upgrader.adapters.own_machine import ThisMachine


def test_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those beside this Python come first; one that isn't there, or doesn't end, has no answer."""
    machine, program = ThisMachine(), Path(sys.executable).name
    monkeypatch.setenv("PATH", str(tmp_path))
    found = machine.answer(program, "-c", "import sys; print(sys.executable); sys.exit(3)")
    assert found is not None and (found.exit_status, found.stdout.strip()) == (3, sys.executable)
    assert machine.answer("no-such-program") is None
    monkeypatch.setattr(own_machine, "_SECONDS", 0.01)
    assert machine.answer(program, "-c", "import time; time.sleep(60)") is None


def test_files_and_disk(tmp_path: Path) -> None:
    """Of a folder that isn't there yet, the disk that it will be on; a mode is that of what a link leads to."""
    machine, file = ThisMachine(), tmp_path / "key"
    file.write_text("")
    file.chmod(0o640)
    (tmp_path / "link").symlink_to(file)
    assert machine.mode(tmp_path / "link") == 0o640 and machine.mode(tmp_path / "nothing") is None
    free = machine.free_bytes(tmp_path / "not" / "yet")
    assert free is not None and free > 0


def test_key_that_others_may_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As OpenSSH has it: whoever else may read, write or run this user's own file; not a file of somebody else."""
    machine, key = ThisMachine(), tmp_path / "key"
    key.write_text("")
    refused = []
    for mode in (0o600, 0o400, 0o700, 0o640, 0o620, 0o610, 0o604):
        key.chmod(mode)
        refused += [mode] if machine.ssh_refuses(key) else []
    assert refused == [0o640, 0o620, 0o610, 0o604] and not machine.ssh_refuses(tmp_path / "nothing")
    monkeypatch.setattr(os, "getuid", lambda: key.stat().st_uid + 1)
    assert not machine.ssh_refuses(key)
