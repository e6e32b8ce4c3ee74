"""Branch coverage of the packages that decide, by unit tests alone: `python -m pytest -p tests.unit_coverage`.

A plugin, so that no test runs twice and there is one summary. It measures from before the first import until the last
unit test, and pauses for Hypothesis' tests: what they reach is random, so that a figure with them would change from
run to run. It pauses for those that repeat one thing at every moment, too: they run no other lines, and being measured
doubles their time. A line counts when an example runs it.

The packages and the least share are in pyproject.toml, `tool.coverage`. Each package is a test of its own, after the
unit tests.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from coverage import Coverage
from coverage.exceptions import NoDataError

__all__ = ["UnitCoverage"]

_UNIT = "tests/unit/"


class UnitCoverage:
    """Measures during unit tests, and knows the shares afterwards."""

    def __init__(self, coverage: Coverage) -> None:
        self._coverage = coverage
        self._measuring = False
        self.measure(True)

    @property
    def least(self) -> float:
        """The least share of each package, in percent."""
        return float(str(self._coverage.get_option("report:fail_under")))

    @property
    def packages(self) -> list[str]:
        """The folders that are measured."""
        folders = self._coverage.get_option("run:source")
        assert isinstance(folders, list), "pyproject.toml lists them"
        return folders

    def measure(self, on: bool) -> None:
        """Measure from now on, or pause."""
        if on != self._measuring:
            (self._coverage.start if on else self._coverage.stop)()
            self._measuring = on

    def share(self, package: str = "") -> tuple[float, str]:
        """Percent of lines and branches that ran, of one package or of all, and a table of those that didn't."""
        table = io.StringIO()
        files = f"{Path(package).resolve()}/*"
        try:
            percent = self._coverage.report(include=files, file=table, show_missing=True, skip_covered=True)
        except NoDataError:
            return 0.0, "no test ran any of it"
        return percent, table.getvalue()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Judge the packages after the last unit test."""
        behind = max((index for index, item in enumerate(items, 1) if item.nodeid.startswith(_UNIT)), default=0)
        items[behind:behind] = [PackageItem.of(session, self, package) for package in self.packages]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Measure this test if it counts."""
        random = isinstance(item, pytest.Function) and getattr(item.obj, "is_hypothesis_test", False)
        repeated = random or item.get_closest_marker("every_moment") is not None
        self.measure(item.nodeid.startswith(_UNIT) and not isinstance(item, PackageItem) and not repeated)
        return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """One line for each package, and one for all."""
        self.measure(False)
        terminalreporter.section("branch coverage by unit tests")
        for package in (*self.packages, ""):
            terminalreporter.write_line(f"{package or 'total':<36}{self.share(package)[0]:7.2f} %")


class PackageItem(pytest.Item):
    """The test that enough of a package ran."""

    measured: UnitCoverage
    package: str

    @classmethod
    def of(cls, session: pytest.Session, measured: UnitCoverage, package: str) -> PackageItem:
        """The test of one package."""
        item: PackageItem = cls.from_parent(session, name=package, nodeid=f"{_UNIT}coverage::{package}")
        item.measured, item.package = measured, package
        return item

    def runtest(self) -> None:
        """Fail when too little ran, and list what didn't."""
        percent, missing = self.measured.share(self.package)
        if percent < self.measured.least:
            pytest.fail(f"{percent:.2f} % is less than {self.measured.least:g} %\n{missing}", pytrace=False)

    def reportinfo(self) -> tuple[str, None, str]:
        """Where it belongs."""
        return self.package, None, f"branch coverage of {self.package}"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin before a conftest imports what is to be measured."""
    settings = early_config.rootpath / "pyproject.toml"
    early_config.pluginmanager.register(UnitCoverage(Coverage(data_file=None, config_file=str(settings))))
