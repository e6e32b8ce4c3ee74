"""Processes that share the test files among them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from testkit.command import REPOSITORY

_CONFTEST = """
import pathlib, pytest

@pytest.fixture(scope="session")
def cluster():
    yield
    (pathlib.Path(__file__).parent / "closed").write_text("once")
"""
_TESTS = """
import pytest

@pytest.fixture(scope="module", autouse=True)
def _of_the_file():
    yield
    with open(__file__ + ".log", "a") as log:
        log.write("torn down")

@pytest.mark.parametrize("number", [1, 2])
def test_it(cluster, number):
    with open(__file__ + ".log", "a") as log:
        log.write(f"{number} ")
"""


def _pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.shared_files", "--share", str(folder / "taken")]
    command += ["--rootdir", str(folder), "-c", "/dev/null", "--import-mode=importlib", *arguments, str(folder)]
    environment = {"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_each_file_is_run_once(tmp_path: Path) -> None:
    """A process leaves what another one has taken, and keeps its session's fixtures from file to file."""
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    names = [f"test_{number}.py" for number in range(3)]
    for name in names:
        (tmp_path / name).write_text(_TESTS)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "-".join((tmp_path / names[1]).parts[-3:])).touch()

    first, second = _pytest(tmp_path), _pytest(tmp_path)

    assert (first.returncode, second.returncode) == (0, 0), (first, second)
    assert "4 passed" in first.stdout, first
    assert "passed" not in second.stdout, second
    logs = [tmp_path / f"{name}.log" for name in names]
    assert [log.read_text() if log.exists() else None for log in logs] == ["1 2 torn down", None, "1 2 torn down"]
    assert (tmp_path / "closed").read_text() == "once"


def test_failures_end_it(tmp_path: Path) -> None:
    """As without sharing: the exit code is 1, and no test begins after --maxfail."""
    (tmp_path / "test_1.py").write_text("def test_one():\n    assert False\n\ndef test_two():\n    assert False\n")
    (tmp_path / "test_2.py").write_text("def test_three():\n    assert False\n")
    assert "3 failed" in _pytest(tmp_path).stdout
    (tmp_path / "taken").rename(tmp_path / "before")
    ended = _pytest(tmp_path, "--maxfail", "1")
    assert (ended.returncode, "1 failed" in ended.stdout) == (1, True), ended
