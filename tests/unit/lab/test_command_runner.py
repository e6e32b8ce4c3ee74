"""Commands that the lab runs can all be stopped at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from testkit.waiting import stretched
from upgrader.errors import LabError
from upgrader.lab.command_runner import CommandRunner


def test_output_and_input_pass_through(tmp_path: Path) -> None:
    """Standard input is text or a file; standard output comes back."""
    (tmp_path / "in").write_text("from a file")
    assert CommandRunner().run(["cat"], what="cat", stdin="text") == "text"
    assert CommandRunner().run(["cat"], what="cat", stdin=tmp_path / "in") == "from a file"


def test_a_failed_command_says_what_and_its_last_words() -> None:
    """The error holds what was to be done, the exit code and standard error."""
    with pytest.raises(LabError) as caught:
        CommandRunner().run(["sh", "-c", "echo because >&2; exit 3"], what="controller-1: kubeadm init")
    assert caught.value.message == "controller-1: kubeadm init failed (exit 3): because"


def test_a_program_that_is_missing_is_an_error_of_ours() -> None:
    """It is named, and not a traceback."""
    with pytest.raises(LabError, match="/no/such/program"):
        CommandRunner().run(["/no/such/program"], what="x")


def test_a_failure_ends_the_other_jobs() -> None:
    """When one of several jobs fails, the others' commands are killed and its error is the one that is raised."""
    runner = CommandRunner()
    started = threading.Event()

    def long() -> None:
        started.set()
        runner.run(["sleep", "1000"], what="sleep", timeout_seconds=2000)

    def failing() -> None:
        assert started.wait(stretched(10))
        runner.run(["false"], what="the one that failed")

    with pytest.raises(LabError, match="the one that failed"):
        runner.together([long, failing])


def test_nothing_starts_after_a_cancel(tmp_path: Path) -> None:
    """Neither commands nor machines."""
    runner = CommandRunner()
    runner.cancel()
    with pytest.raises(LabError, match="cancelled"):
        runner.run(["true"], what="x")
    with pytest.raises(LabError, match="cancelled"):
        runner.spawn(["true"], tmp_path / "log")
