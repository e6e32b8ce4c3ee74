"""Several processes share the test files among them: `python -m pytest -p tests.shared_files --share FOLDER`.

A plugin. Each takes the next file that no other process has taken, whenever it has finished one. So they end at about
the same time, whatever a file takes; and a file's tests run in one process, one after the other. FOLDER, which is made,
has an empty file for each that was taken.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

__all__ = ["SharedFiles"]


class SharedFiles:
    """Runs the files that this process takes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """As pytest's own, for the files that are left when their turn comes."""
        if session.testsfailed:
            raise session.Interrupted("errors during collection")
        files: dict[Path, list[pytest.Item]] = {}
        for each in session.items:
            files.setdefault(each.path, []).append(each)
        for file, items in files.items():
            if not self._take(file):
                continue
            # pytest tears down what the next test doesn't need; of another file's test, the session's fixtures stay.
            other = next((its[0] for path, its in files.items() if path != file), None)
            for item, following in itertools.zip_longest(items, items[1:], fillvalue=other):
                assert item is not None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
        return True

    def _take(self, file: Path) -> bool:
        """Whether this process is the first that wants it."""
        self._folder.mkdir(exist_ok=True)
        try:
            (self._folder / "-".join(file.parts[-3:])).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def pytest_addoption(parser: pytest.Parser) -> None:
    """The folder."""
    parser.addoption("--share", type=Path, metavar="FOLDER", help="run the files that no process with this FOLDER has")


def pytest_configure(config: pytest.Config) -> None:
    """Share, where a folder is named."""
    folder: Path | None = config.getoption("--share")
    if folder is not None and not config.option.collectonly:
        config.pluginmanager.register(SharedFiles(folder))
