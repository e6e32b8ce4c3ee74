"""The folders of a cluster's runs, in their order. No journal is read but for its first line."""

from __future__ import annotations

import json
import re
from pathlib import Path

from upgrader.engine.history.run_order import in_order
from upgrader.engine.journal.glance import JOURNAL, first_line

__all__ = ["run_folders", "sequence_of"]

_NAME = re.compile(r"\d{8}T\d{6}-.")
_LINE_BYTES = 4 * 1024 * 1024
"""Far more than the first line of any journal has."""


def run_folders(runs: Path) -> list[Path]:
    """Those in a cluster's `runs` folder, oldest first."""
    found = (folder for folder in runs.glob("*/") if _NAME.match(folder.name) and not folder.is_symlink())
    return in_order(found, name=lambda folder: folder.name, sequence=sequence_of)


def sequence_of(folder: Path) -> int:
    """A run's number, which is in the first line of its journal; 0 where it can't be read."""
    try:
        found = json.loads(first_line(folder / JOURNAL, _LINE_BYTES))["data"]["sequence"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0
    return found if isinstance(found, int) else 0
