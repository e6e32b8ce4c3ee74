"""Branch coverage of the packages that decide, by unit tests alone: `python -m pytest -p tests.unit_coverage`.

A plugin, so that no test runs twice and there is one summary. SlipCover counts what ran, and stops counting a line that
has; so tests take little longer for it. It counts from before the first import until the packages are judged: each is a
test of its own, after the unit tests. Hypothesis' tests come after these: what they reach is random, so that a figure
with them would change from run to run.

The packages and the least share are in pyproject.toml, `tool.unit-coverage`.
"""

from __future__ import annotations

import tomllib
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from slipcover import FileMatcher, ImportManager, Slipcover

__all__ = ["UnitCoverage"]

_UNIT = "tests/unit/"


class UnitCoverage:
    """Counts from the start, and knows the shares afterwards."""

    def __init__(self, root: Path) -> None:
        settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["unit-coverage"]
        self.packages: list[str] = settings["packages"]
        self.least: float = settings["least"]
        """The least share of each package, in percent."""
        omitted: list[str] = settings["omit"]
        # Before it stops counting a line, it looks through every function of every module, which takes a tenth of a
        # second; to count the line is nothing. So not at the 50th time already, which is the default.
        self._slipcover = Slipcover(branch=True, source=self.packages, omit=omitted, d_miss_threshold=2000)
        ImportManager(self._slipcover, FileMatcher(self.packages, omitted)).__enter__()

    @cached_property
    def _files(self) -> dict[str, Any]:
        """File → what of it ran until now, and what didn't."""
        files: dict[str, Any] = self._slipcover.get_coverage()["files"]
        return files

    def share(self, package: str = "") -> float:
        """Percent of the lines and branches of one package, or of all, that ran."""
        ran = every = 0
        for name, file in self._files.items():
            if name.startswith(f"{package}/" if package else ""):
                done, missing = (sum(len(file[f"{kind}_{what}"]) for what in ("lines", "branches")) for kind in _KINDS)
                ran, every = ran + done, every + done + missing
        return 100 * ran / every if every else 0.0

    def missing(self, package: str) -> str:
        """A line for each file of a package of which something didn't run: its lines, and branches as `from->to`."""
        told = []
        for name, file in sorted(self._files.items()):
            lines = [str(line) for line in file["missing_lines"]]
            branches = [f"{begin}->{end or 'exit'}" for begin, end in file["missing_branches"]]
            if name.startswith(f"{package}/") and lines + branches:
                told.append(f"{name}: {', '.join(lines + branches)}")
        return "\n".join(told)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Judge the packages after the unit tests that aren't random."""
        counting = [item for item in items if item.nodeid.startswith(_UNIT) and not _random(item)]
        counted = set(counting)
        others = [item for item in items if item not in counted]
        items[:] = [*counting, *(PackageItem.of(session, self, package) for package in self.packages), *others]

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """One line for each package, and one for all."""
        terminalreporter.section("branch coverage by unit tests")
        for package in (*self.packages, ""):
            terminalreporter.write_line(f"{package or 'total':<36}{self.share(package):7.2f} %")


_KINDS = ("executed", "missing")


def _random(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and bool(getattr(item.obj, "is_hypothesis_test", False))


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
        percent = self.measured.share(self.package)
        if percent < self.measured.least:
            missing = self.measured.missing(self.package)
            pytest.fail(f"{percent:.2f} % is less than {self.measured.least:g} %\n{missing}", pytrace=False)

    def reportinfo(self) -> tuple[str, None, str]:
        """Where it belongs."""
        return self.package, None, f"branch coverage of {self.package}"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin before a conftest imports what is to be counted."""
    early_config.pluginmanager.register(UnitCoverage(early_config.rootpath))
