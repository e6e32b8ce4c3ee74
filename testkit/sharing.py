"""The order in which several processes of pytest run the groups of tests, each group in one of them.

A group is a file, or the files that need the same state of a cluster. The longest come first, by what they took before
(`tests/seconds.json`), so that the processes end at about the same time; a group without a figure counts as long. Each
process takes the first group that no other has taken: a file in a folder that they share says that it is taken.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

__all__ = ["Group", "Shared", "in_order", "load_seconds"]

_UNKNOWN_SECONDS = 120.0


@dataclass(frozen=True)
class Group:
    """Tests that run in one process, one after the other. An `early` group has clusters of its own: it runs
    before the process makes the shared one, so that fewer of them share the cores.
    """

    name: str
    early: bool = False


class Shared:
    """The groups that are left, for all processes that share a folder."""

    def __init__(self, folder: Path, groups: Sequence[Group]) -> None:
        self._folder = folder
        self._left = list(groups)

    def take(self) -> Group | None:
        """The next group, which no other process gets; None when none is left."""
        while self._left:
            group = self._left.pop(0)
            try:
                os.close(os.open(self._folder / quote(group.name, safe=""), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return group
        return None


def in_order(groups: Iterable[Group], seconds: Mapping[str, float]) -> list[Group]:
    """The early ones first, then the longest first; the same order in every process."""
    return sorted(groups, key=lambda group: (not group.early, -seconds.get(group.name, _UNKNOWN_SECONDS), group.name))


def load_seconds(file: Path) -> Mapping[str, float]:
    """Group → what it took; empty where there is no such file."""
    if not file.exists():
        return {}
    found = json.loads(file.read_text())
    return {str(name): float(seconds) for name, seconds in found.items()}
