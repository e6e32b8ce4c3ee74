"""Completion in a shell, and `-C` on both sides of a command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from testkit import example_runs as runs
from testkit.example_runs import RUN, journal_of
from upgrader.cli.main import cli
from upgrader.errors import UsageError

LATER = "20260102T000000-v1.37.1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cluster folder with two runs."""
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\n")
    journal_of(runs.GOOD, tmp_path)
    journal_of(runs.ROLLED_BACK, tmp_path, LATER)
    return tmp_path


def completed(*words: str, folder: Path | None = None) -> list[str]:
    """What the program answers bash for the last of these words."""
    line = ["upgrader", *words]
    settings = {"_UPGRADER_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(line), "COMP_CWORD": str(len(line) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", "from upgrader.cli.main import main; main()"],
        env={**os.environ, **settings, "PYTHONPATH": str(Path(__file__).parents[3])},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_commands_and_runs(folder: Path) -> None:
    """Commands by their beginning; runs of the current folder and of -C's, newest first."""
    assert completed("repo") == ["report"]
    assert completed("report", "2026", folder=folder) == [LATER, RUN]
    assert completed("-C", str(folder), "resume", "--run", "20260102") == [LATER]
    assert completed("report", "-C", str(folder), "2026") == [LATER, RUN]


def test_steps_of_the_run(folder: Path) -> None:
    """Steps that were begun, of the run that is named, or of the newest upgrade."""
    assert completed("rollback", "--to", "ku", folder=folder) == ["kube-apiserver"]
    assert completed("rollback", "--run", RUN, "--to", "ku", folder=folder) == [
        "kube-apiserver",
        "kubernetes",
        "kubeadm-config",
    ]


def test_what_cannot_be_read_is_not_offered(folder: Path, tmp_path: Path) -> None:
    """A damaged journal and a folder without runs are no error on a command line that is being typed."""
    (folder / "runs" / LATER / "journal.jsonl").write_text("garbage\n")
    assert completed("rollback", "--run", LATER, "--to", "k", folder=folder) == []
    (tmp_path / "empty").mkdir()
    assert completed("report", "2", folder=tmp_path / "empty") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_of_each_shell(shell: str) -> None:
    """The script names the program and the variable that asks it."""
    output = CliRunner().invoke(cli, ["completion", shell], catch_exceptions=False).stdout
    assert "upgrader" in output and "_UPGRADER_COMPLETE" in output


def test_folder_before_and_after_the_command(folder: Path) -> None:
    """Both mean the same, also for a command below another one."""
    before = CliRunner().invoke(cli, ["-C", str(folder), "report", "-o", "junit"], catch_exceptions=False)
    after = CliRunner().invoke(cli, ["report", "-C", str(folder), "-o", "junit"], catch_exceptions=False)
    assert before.stdout == after.stdout != ""
    with pytest.raises(UsageError, match="elsewhere"):
        CliRunner().invoke(cli, ["certs", "show", "-C", str(folder / "elsewhere")], catch_exceptions=False)


def test_two_folders_are_refused(folder: Path) -> None:
    """Nobody has to guess which cluster would be changed; the same folder twice is no contradiction."""
    with pytest.raises(UsageError, match="-C is given twice"):
        CliRunner().invoke(cli, ["-C", "/other", "report", "-C", str(folder)], catch_exceptions=False)
    both = CliRunner().invoke(cli, ["-C", str(folder), "report", "-C", str(folder)], catch_exceptions=False)
    assert both.exit_code == 0
