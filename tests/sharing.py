"""Several processes share the tests of a run: `python -m pytest -p tests.sharing --share FOLDER -m lab`.

A plugin. Each process collects all tests, and takes one group after the other (`testkit/sharing.py`) until none is
left. Fixtures of a session live as long as the process: each has one cluster for all its groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from testkit.sharing import Group, Shared, in_order, load_seconds
from tests.groups import GROUP

__all__ = ["SECONDS", "groups_of"]


SECONDS = Path(__file__).with_name("seconds.json")
"""What each group took; `python -m scripts.test_results --record` writes it from the results of a run."""
_UPGRADED = "upgraded_cluster"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The folder that the processes share."""
    parser.addoption("--share", type=Path, metavar="FOLDER", help="where processes say which tests they have taken")


def groups_of(items: Sequence[pytest.Item]) -> Mapping[Group, Sequence[pytest.Item]]:
    """The tests of each group, as they were collected: by file, but all files for an upgraded cluster are one."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    named: dict[str, list[pytest.Item]] = {}
    for file, found in files.items():
        upgraded = any(isinstance(item, pytest.Function) and _UPGRADED in item.fixturenames for item in found)
        name = "an upgraded cluster" if upgraded else file
        named.setdefault(name, []).extend(found)
        for item in found:
            item.stash[GROUP] = name
    return {Group(name, early=all(_has_its_own(item) for item in found)): found for name, found in named.items()}


def _has_its_own(item: pytest.Item) -> bool:
    return any(mark.args == ("own",) for mark in item.iter_markers("lab"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Instead of pytest's own loop: the groups that no other process has taken."""
    folder: Path | None = session.config.getoption("--share")
    if folder is None or session.config.option.collectonly or session.testsfailed:
        return None
    groups = groups_of(session.items)
    shared = Shared(folder, in_order(groups, load_seconds(SECONDS)))
    while group := shared.take():
        items = groups[group]
        # Behind the last one only the session stays, as the next group isn't taken before it is begun.
        for item, following in zip(items, [*items[1:], session], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
    return True
