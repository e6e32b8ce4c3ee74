"""bench/results/kinds.json: a row for each kind, with a cell for each column that a lab or a test has shown.

A cell of a lab has what `columns.Cell` has, and the command. Cells that a test shows are written by hand: `result`
(`passed`, `derived`, `refused`, `rolled back`), `test` (its path and name) and, of a refusal, `words` and `adr`, the
file that says why.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from testkit.kinds.catalogue import Kind
from testkit.kinds.columns import Cell

__all__ = ["Row", "read", "recorded", "write"]

_WORDS = 400
Row = Mapping[str, Any]
"""`kind`, `title`, `what`, and `cells`: column → cell."""


def read(path: Path) -> list[Row]:
    """The rows, in the order of the page."""
    rows: list[Row] = json.loads(path.read_text())
    return rows


def write(path: Path, rows: Sequence[Row]) -> None:
    """One line of JSON for each value, so that a change of one cell is a change of few lines."""
    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def recorded(rows: Sequence[Row], kind: Kind, column: str, cell: Cell, *, alone: bool = False) -> list[Row]:
    """With the cell in place of what was known; after one that didn't pass, later columns of the kind aren't known.

    `alone`: the other columns weren't tried, and were seen on another lab of this kind.
    """
    seen = {key: value for key, value in asdict(cell).items() if value not in ("", 0)}
    if "words" in seen:
        seen["words"] = seen["words"][:_WORDS]
    seen["command"] = f"{kind.command} --only {shlex.quote(column)}" if alone else kind.command
    new: Row = {"kind": kind.name, "title": kind.name, "what": "", "cells": {}}
    before = next((row for row in rows if row["kind"] == kind.name), new)
    # The adoption comes first: whatever an earlier lab has shown of later columns isn't this one's.
    kept = {} if column == "adopt" else before["cells"]
    row = {**before, "cells": {**kept, column: seen}}
    return [row if each["kind"] == kind.name else each for each in rows] + ([] if before in rows else [row])
