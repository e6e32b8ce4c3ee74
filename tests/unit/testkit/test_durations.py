"""The lines that are written about tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from scripts.test_results import last_to_end, lines_in, slowest, waits_of
from testkit.command import REPOSITORY

_TESTS = """
from testkit.waiting import waiting

def test_one():
    with waiting("nothing"):
        pass

def test_two():
    assert False
"""


def test_each_test_has_a_line(tmp_path: Path) -> None:
    """With its outcome, and what it waited for."""
    file, lines = tmp_path / "test_1.py", tmp_path / "first.jsonl"
    file.write_text(_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "tests.durations"]
    command += ["--rootdir", str(tmp_path), "-c", "/dev/null", "--lines", str(lines), str(file)]
    environment = {"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended
    one, two = lines_in(tmp_path)["first"]
    assert (one["test"], one["outcome"], list(one["waits"])) == ("test_1.py::test_one", "passed", ["nothing"])
    assert (two["test"], two["outcome"], two["waits"]) == ("test_1.py::test_two", "failed", {})


def _lines(folder: Path) -> None:
    lines = [
        {
            "test": "a.py::x",
            "setup": 30,
            "call": 5,
            "teardown": 0,
            "waits": {"a cluster": 29, "helm": 4},
        },
        {"test": "a.py::y", "setup": 0, "call": 2.5, "teardown": 0.5, "waits": {"helm": 1}},
        {"test": "b.py::z", "setup": 0, "waits": {}},
    ]
    (folder / "lab-1.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def test_slowest_tests_are_told_with_their_waits(tmp_path: Path) -> None:
    """By all that a test took, its set-up included; of a whole process, each kind of wait is added up."""
    _lines(tmp_path)
    (lines,) = lines_in(tmp_path).values()
    assert [line.split(None, 2)[2] for line in slowest(lines, 2)] == [
        "(30 + 5 + 0)  a.py::x: a cluster 29, helm 4",
        "(0 + 2 + 0)  a.py::y: helm 1",
    ]
    assert waits_of(lines) == ["    29 s  a cluster", "     5 s  helm"]


def test_process_that_others_do_not_shorten_is_told() -> None:
    """The longest one need not be the last to end; of that, only what no other one ran beside counts as alone."""
    one, two = {"begun": 100.0, "setup": 1.0, "call": 99.0}, {"begun": 200.0, "call": 300.0}
    late = {"begun": 450.0, "call": 85.0, "teardown": 5.0}
    told = last_to_end({"lab": [one, two], "no-lab": [late], "unit": []})
    assert told == "longest: lab, 400 s; last to end: no-lab, which ran alone for 40 s"
    assert last_to_end({"unit": [late]}) == "longest: unit, 90 s; last to end: unit, which ran alone for 90 s"
    assert last_to_end({"unit": []}) == ""
