"""A line for each test, with what it took and what it waited for: `python -m pytest -p tests.durations --lines FILE`.

A plugin. Each line is JSON: `test`, `outcome`, `begun` (seconds since 1970), the seconds of `setup`, `call` and
`teardown`, `cpu` (those of processors, of this process and of commands that have ended), and `waits`: what the test's
own thread waited for, as `testkit.waiting` tells it, with the seconds. A wait within another one counts in both.
`python -m scripts.test_results` prints the slowest.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.waiting import LOGGER

__all__ = ["Lines"]


class _Waits(logging.Handler):
    """The seconds of each wait of the main thread, since they were last taken."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._seconds: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Add one up."""
        if record.thread == threading.main_thread().ident:
            what, seconds = str(record.__dict__["waited_for"]), float(record.__dict__["seconds"])
            self._seconds[what] = self._seconds.get(what, 0.0) + seconds

    def take(self) -> dict[str, float]:
        """What was waited for, the longest first; from now on it is counted anew."""
        taken, self._seconds = self._seconds, {}
        return {what: round(taken[what], 2) for what in sorted(taken, key=lambda each: -taken[each])}


class Lines:
    """Writes the lines, each as soon as its test has ended."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._waits = _Waits()
        self._line: dict[str, Any] = {}
        LOGGER.setLevel(logging.DEBUG)
        LOGGER.propagate = False  # a failed test's own log stays readable
        LOGGER.addHandler(self._waits)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """One test: its phases are filled in as they are reported."""
        self._waits.take()
        self._line = {
            "test": item.nodeid,
            "outcome": "passed",
            "begun": round(time.time(), 1),
        }
        before = _cpu_seconds()
        result = yield
        self._line["cpu"] = round(_cpu_seconds() - before, 2)
        self._line["waits"] = self._waits.take()
        with self._file.open("a") as lines:
            lines.write(f"{json.dumps(self._line)}\n")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of it."""
        self._line[str(report.when)] = round(report.duration, 2)
        if not report.passed:
            self._line["outcome"] = report.outcome


def _cpu_seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def pytest_addoption(parser: pytest.Parser) -> None:
    """The file."""
    parser.addoption("--lines", type=Path, metavar="FILE", help="a line of JSON for each test is added to it")


def pytest_configure(config: pytest.Config) -> None:
    """Begin, where a file is named."""
    file: Path | None = config.getoption("--lines")
    if file is not None:
        config.pluginmanager.register(Lines(file))
