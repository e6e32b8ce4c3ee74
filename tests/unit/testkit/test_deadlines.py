"""The deadlines of tests themselves: a constant one fails on a busy machine, by chance."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_ARGUMENT = {"settimeout", "join", "wait", "wait_for"}
"""Methods of sockets, threads, events, conditions and processes whose last argument is a number of seconds."""
_SHORTEST = 2.0
"""Seconds: what is shorter isn't waited for, it is an interval between two looks."""
_CLIENTS = {
    # How long a client of the API waits is what these measure.
    "testkit/kinds/catalogue.py",
    "tests/soak/test_guard_on_a_lab.py",
    # `wait` isn't given seconds.
    "tests/contract/guard/test_protector.py",
    "tests/contract/guard/test_protector_promise.py",
    "tests/contract/guard/test_protector_rights.py",
    "tests/unit/steps/backup/test_await_pod.py",
    "tests/unit/steps/etcd/test_member.py",
}


def constants(source: str) -> Iterator[int]:
    """The lines in which something is waited for with a number as deadline."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            given = [each.value for each in node.keywords if each.arg == "timeout"]
            if isinstance(node.func, ast.Attribute) and node.func.attr in _ARGUMENT:
                given += node.args[-1:]
            for each in given:
                if isinstance(each, ast.Constant) and isinstance(each.value, int | float) and each.value >= _SHORTEST:
                    yield each.lineno


@pytest.mark.parametrize("folder", ["tests", "testkit"])
def test_no_deadline_is_a_constant(folder: str) -> None:
    """Each is stretched, as `testkit.waiting` does it, so that no test fails because others run beside it."""
    found = [
        f"{name}:{line}"
        for file in sorted((ROOT / folder).rglob("*.py"))
        if (name := str(file.relative_to(ROOT))) not in _CLIENTS
        for line in constants(file.read_text())
    ]
    assert found == [], "give them to stretched() of testkit.waiting"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("process.communicate(timeout=30)", [1]),
        ("process.wait(10)\nthread.join(5.0)", [1, 2]),
        ("process.wait(stretched(10))\nstop.wait(0.1)\n', '.join(names)", []),
    ],
)
def test_what_counts_as_one(source: str, lines: list[int]) -> None:
    """Numbers given to what waits; neither intervals nor what joins texts."""
    assert list(constants(source)) == lines
