"""Processes of pytest that share the tests of a run, and the lines that they write about them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from scripts.test_results import lines_in, seconds_of_groups, slowest, waits_of
from testkit.command import REPOSITORY
from testkit.sharing import Group, Shared, in_order, load_seconds


def test_longest_group_comes_first_and_early_ones_before() -> None:
    """An unknown one counts as long; those that need no cluster run while it is made."""
    groups = [Group("short"), Group("new"), Group("long"), Group("own lab", early=True)]
    order = in_order(groups, {"short": 1, "long": 500, "own lab": 5})
    assert [group.name for group in order] == ["own lab", "long", "new", "short"]


def test_each_group_is_taken_once(tmp_path: Path) -> None:
    """Two that share a folder never get the same group, and both end when none is left."""
    groups = [Group("tests/a.py"), Group("b"), Group("c")]
    one, other = Shared(tmp_path, groups), Shared(tmp_path, groups)
    taken = [one.take(), other.take(), other.take(), one.take(), other.take()]
    assert taken == [*groups, None, None]


def test_seconds_are_read_if_there_are_any(tmp_path: Path) -> None:
    """A first run has none."""
    assert load_seconds(tmp_path / "none.json") == {}
    (tmp_path / "some.json").write_text('{"a": 3}')
    assert load_seconds(tmp_path / "some.json") == {"a": 3.0}


_TESTS = """
import os, pytest
from testkit.waiting import waiting

@pytest.fixture(scope="module")
def module():
    yield
    with open(os.environ["ENDED"], "a") as file:
        file.write(os.path.basename(__file__) + chr(10))

def test_one(module):
    with waiting("nothing"):
        pass

def test_two(module):
    assert os.path.basename(__file__) != "test_3.py"
"""


def test_processes_run_every_test_once(tmp_path: Path) -> None:
    """What one process has taken, the next doesn't run. A module's fixtures end with it, a failure is told, and each
    test has a line with what it waited for."""
    tests, shared, ended = tmp_path / "tests", tmp_path / "shared", tmp_path / "ended"
    tests.mkdir()
    shared.mkdir()
    for number in range(1, 4):
        (tests / f"test_{number}.py").write_text(_TESTS)
    (shared / "test_2.py").touch()  # another process has it

    def run(name: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "tests.durations", "-p", "tests.sharing"]
        command += ["--rootdir", str(tests), "-c", "/dev/null", "--share", str(shared)]
        command += ["--lines", str(tmp_path / f"{name}.jsonl"), str(tests)]
        environment = {"PYTHONPATH": str(REPOSITORY), "ENDED": str(ended), "PATH": "/usr/bin:/bin"}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    first, second = run("first"), run("second")
    assert first.returncode == 1, first
    assert second.returncode == 0 and "no tests ran" in second.stdout, second
    lines = lines_in(tmp_path)["first"]
    assert [(line["test"], line["outcome"]) for line in lines] == [
        ("test_1.py::test_one", "passed"),
        ("test_1.py::test_two", "passed"),
        ("test_3.py::test_one", "passed"),
        ("test_3.py::test_two", "failed"),
    ]
    assert list(lines[0]["waits"]) == ["nothing"] and lines[1]["waits"] == {}
    assert ended.read_text().split() == ["test_1.py", "test_3.py"]


def _lines(folder: Path) -> None:
    lines = [
        {
            "test": "a.py::x",
            "group": "a.py",
            "setup": 30,
            "call": 5,
            "teardown": 0,
            "waits": {"a cluster": 29, "helm": 4},
        },
        {"test": "a.py::y", "group": "a.py", "setup": 0, "call": 2.5, "teardown": 0.5, "waits": {"helm": 1}},
        {"test": "b.py::z", "group": "b", "setup": 0, "waits": {}},
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


def test_seconds_of_a_group_are_without_the_wait_for_a_cluster(tmp_path: Path) -> None:
    """That depends on what ran before."""
    _lines(tmp_path)
    (lines,) = lines_in(tmp_path).values()
    assert seconds_of_groups(lines) == {"a.py": 9.0, "b": 0.0}
