"""Reads the Markdown tables of a page, so that tests ask for a figure by its row and column, not for a line of text."""

from __future__ import annotations

__all__ = ["row", "rows"]

Row = dict[str, str]
"""Column → cell."""


def rows(text: str) -> list[Row]:
    """The rows of all tables on the page, in their order."""
    found: list[Row] = []
    head: list[str] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            head = []
            continue
        cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
        if not head:
            head = cells
        elif set(line) - set("|-: "):
            found.append(dict(zip(head, cells, strict=True)))
    return found


def row(text: str, first: str) -> Row:
    """The one row whose first cell is this."""
    (found,) = (each for each in rows(text) if next(iter(each.values())) == first)
    return found
