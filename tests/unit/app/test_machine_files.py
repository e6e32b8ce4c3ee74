"""Files for machines are accepted by the programs that read them, and mean what they say."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from upgrader.cli.main import cli
from upgrader.errors import UsageError

SYSTEMD_ANALYZE = shutil.which("systemd-analyze")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cluster folder whose runs write metrics."""
    made = tmp_path / "north-1"
    made.mkdir()
    (made / "metrics").mkdir()
    (made / "upgrader.yaml").write_text(
        f"kubernetesVersion: v1.37.1\nobservability: {{textfileDirectory: {made}/metrics}}\n"
    )
    return made


def init(folder: Path, *arguments: str) -> Result:
    """Without a question."""
    return CliRunner().invoke(cli, ["-C", str(folder), "init", "--yes", *arguments], catch_exceptions=False)


def test_rule_of_sudo(folder: Path) -> None:
    """It is for the user who logs in, needs no password, and keeps what goes through sudo out of its logs."""
    said = init(folder, "--sudoers", "--ssh-user", "deploy").stderr
    lines = [line for line in (folder / "sudoers").read_text().splitlines() if line and not line.startswith("#")]
    assert lines == [
        "Defaults:deploy !requiretty",
        "Defaults:deploy !log_input, !log_output",
        "deploy ALL=(root) NOPASSWD: ALL",
    ]
    assert "visudo -cf sudoers && install -m 0440 sudoers /etc/sudoers.d/upgrader" in said


@pytest.mark.parametrize("user", ["root", "ALL", "a b", "x, ALL", "%wheel", ""])
def test_user_who_gets_no_rule(folder: Path, user: str) -> None:
    """A name that sudo reads as something else never comes into the file; root needs none."""
    with pytest.raises(UsageError, match=r"--ssh-user|sudo"):
        init(folder, "--sudoers", "--ssh-user", user)
    assert not (folder / "sudoers").exists()


def test_units(folder: Path) -> None:
    """The checks are made in the folder, every day, and what is there already stays."""
    said = init(folder, "--systemd").stderr
    service = (folder / "systemd/upgrader-check-north-1.service").read_text()
    assert f"WorkingDirectory={folder}\n" in service and "/upgrader check --metrics\n" in service
    assert "OnCalendar=" in (folder / "systemd/upgrader-check-north-1.timer").read_text()
    assert "systemctl enable --now upgrader-check-north-1.timer" in said
    (folder / "systemd/upgrader-check-north-1.service").write_text("mine")
    assert "kept: " in init(folder, "--systemd").stderr
    assert (folder / "systemd/upgrader-check-north-1.service").read_text() == "mine"


@pytest.mark.skipif(SYSTEMD_ANALYZE is None, reason="systemd is not installed")
def test_systemd_understands_its_units(folder: Path) -> None:
    """It warns of nothing in them."""
    init(folder, "--systemd")
    units = sorted(map(str, (folder / "systemd").iterdir()))
    assert SYSTEMD_ANALYZE is not None
    checked = subprocess.run(
        [SYSTEMD_ANALYZE, "verify", "--man=no", *units], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, [line for line in checked.stderr.splitlines() if "north-1" in line]) == (0, [])


def test_units_without_metrics(folder: Path) -> None:
    """Where upgrader.yaml names nobody to tell, the checks are made all the same."""
    (folder / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\n")
    init(folder, "--systemd")
    assert "/upgrader check\n" in (folder / "systemd/upgrader-check-north-1.service").read_text()


def test_folder_that_no_unit_can_name(folder: Path) -> None:
    """Systemd would read the rest of the path as something else."""
    other = folder.with_name("north 1")
    folder.rename(other)
    with pytest.raises(UsageError, match="can't be in a systemd unit"):
        init(other, "--systemd")
