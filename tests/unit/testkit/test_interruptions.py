"""Tests that are interrupted remove their clusters first."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.command import REPOSITORY
from testkit.waiting import stretched

_TESTS = """
import os
import signal

import pytest

OTHERS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(scope="session")
def cluster():
    yield
    for number in OTHERS:
        os.kill(os.getpid(), number)
    print("removed", flush=True)


class Swallows:
    def __del__(self):
        os.kill(os.getpid(), {number})


def test_raised(cluster):
    os.kill(os.getpid(), {number})


@pytest.mark.filterwarnings("ignore")
def test_swallowed(cluster):
    Swallows()


def test_next():
    print("went on", flush=True)
"""


@pytest.mark.parametrize(
    ("number", "which"),
    [
        (signal.SIGINT, "test_raised"),
        (signal.SIGTERM, "test_raised"),
        (signal.SIGHUP, "test_raised"),
        (signal.SIGTERM, "test_swallowed"),
    ],
)
def test_clusters_are_removed_after_any_signal(tmp_path: Path, number: signal.Signals, which: str) -> None:
    """However often signals come meanwhile, and also if the exception is lost, the next test doesn't begin."""
    tests = tmp_path / "test_interrupted.py"
    tests.write_text(_TESTS.replace("{number}", str(int(number))))
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "tests.interruptions", "-p", "no:cacheprovider"]
    command += ["-c", "/dev/null", f"--rootdir={tmp_path}", f"{tests}::{which}", f"{tests}::test_next"]
    ended = subprocess.run(
        ["env", "--default-signal=INT,TERM,HUP", *command],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=stretched(60),
        check=False,
    )
    assert ended.returncode == pytest.ExitCode.INTERRUPTED, ended.stdout + ended.stderr
    assert "removed" in ended.stdout
    assert "went on" not in ended.stdout
    assert ended.stderr.count("are ending already") == 3
