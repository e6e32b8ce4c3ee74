"""`upgrader lab`: what it refuses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from testkit.fakes.clock import FakeClock
from upgrader.cli import lab
from upgrader.cli.main import cli
from upgrader.engine.locks.folder_lock import folder_lock
from upgrader.errors import Locked


def test_a_lab_with_a_run_at_work_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who works on it is named, and --force removes it all the same, as does `lab down` once the run has ended."""
    removed: list[str] = []
    placement = SimpleNamespace(folder=tmp_path, spec=SimpleNamespace(name="demo"))
    found = SimpleNamespace(placement=placement, down=lambda: removed.append("demo"))
    monkeypatch.setattr(lab, "_find", lambda *_: found)
    with folder_lock(tmp_path, "anna@build-7 (process 4711)", FakeClock()):
        error = CliRunner().invoke(cli, ["lab", "down"]).exception
        assert isinstance(error, Locked) and "anna@build-7 (process 4711) has been working on lab demo" in error.message
        assert removed == []
        assert CliRunner().invoke(cli, ["lab", "down", "--force"]).exit_code == 0
    assert CliRunner().invoke(cli, ["lab", "down"]).exit_code == 0
    assert removed == ["demo", "demo"]
