"""What this machine's system refuses is a message with the file, the reason and the remedy, and never a traceback."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from upgrader.cli import main as entry
from upgrader.errors import MachineFailed, UpgraderError, UsageError
from upgrader.model.run_kind import RunKind
from upgrader.system_errors import refused_by_the_system, run_ended_by_the_system

COMMANDS = (
    "status",
    "plan",
    "check",
    "check --offline",
    "history",
    "report",
    "config show",
    "versions",
    "resume",
    "rollback",
    "recover --dry-run",
    "doctor",
    "certs show",
    "backup",
    "replay r1",
    "approve step --reason r",
    "init --kubeconfig k",
    "probe",
    "guard off",
    "fleet status",
    "fleet plan",
    "fleet run",
)


def ended(*arguments: str) -> Result:
    """The command, ended."""
    return CliRunner().invoke(entry.cli, arguments)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("folder", ["a" * 300, "file/below"], ids=["too-long", "below-a-file"])
def test_a_folder_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, folder: str) -> None:
    """A name that no folder can have is a mistake on the command line, for each command."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    error = ended("-C", folder, *command.split()).exception
    assert isinstance(error, UpgraderError) and error.exit_code in (2, 3)


@pytest.mark.parametrize(
    ("error", "said", "remedy"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "a file of this command", "df -h /c "),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "/c/x"), "/c/x can't be used: Disk quota", "df -h /c/x"),
        (OSError(errno.EROFS, "Read-only file system", "/c/x"), "/c/x", "mount it writable"),
        (PermissionError(errno.EACCES, "Permission denied", "/c/x"), "/c/x", "ls -ld /c/x"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "/c/x"), "/c/x", "Correct the path"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "/c/x"), "/c/x", "Correct the path"),
        (OSError(errno.EMFILE, "Too many open files", "/c/x"), "/c/x", "ulimit -n"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error", "dmesg"),
        (FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/x']"), "['/x']", "TMPDIR"),
    ],
)
def test_each_refusal_has_its_object_and_remedy(error: OSError, said: str, remedy: str) -> None:
    """The file where the system names it, its own words, and what to do about just that."""
    refused = refused_by_the_system(error, Path("/c"))
    assert isinstance(refused, UsageError) and refused.exit_code == 2
    assert said in refused.message and remedy in refused.remedy


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file or directory", "/c/x"),
        ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
        TimeoutError("timed out"),
        PermissionError(errno.EPERM, "Operation not permitted"),
        OSError("no number"),
    ],
)
def test_what_may_be_a_bug_keeps_its_traceback(error: OSError) -> None:
    """A file that a module forgot to look for, or a connection that it should have dealt with."""
    assert refused_by_the_system(error, None) is None
    assert run_ended_by_the_system(error, Path("/c"), RunKind.UPGRADE) is None


@pytest.mark.parametrize(
    ("kind", "then"), [(RunKind.UPGRADE, "Then: `upgrader resume`."), (RunKind.ADOPT, "run the same command again")]
)
def test_a_run_that_the_system_ended_is_continued(kind: RunKind, then: str) -> None:
    """It stopped in the middle: that isn't an error of the command line, after which nothing was changed."""
    ended_by = run_ended_by_the_system(OSError(errno.ENOSPC, "No space left on device"), Path("/c"), kind)
    assert isinstance(ended_by, MachineFailed) and ended_by.exit_code == 5
    assert then in ended_by.remedy and "stopped where it was" in ended_by.message


def test_the_command_line_prints_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever in a command it happens."""

    @click.command()
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/backups/x.age")

    monkeypatch.setattr(type(entry.cli), "get_command", lambda *_: full)
    error = ended("-C", str(tmp_path), "full").exception
    assert isinstance(error, UsageError) and "/backups/x.age can't be used: No space left" in error.message


def test_a_current_folder_that_is_gone(tmp_path: Path) -> None:
    """Another shell has removed it: the command says so."""
    (tmp_path / "gone").mkdir()
    program = "import os; os.rmdir(os.getcwd()); from upgrader.cli.main import main; main()"
    found = subprocess.run(
        [sys.executable, "-c", program, "status"],
        cwd=tmp_path / "gone",
        env={**os.environ, "PYTHONPATH": str(Path(entry.__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 2 and "Traceback" not in found.stderr and "exists" in found.stderr
