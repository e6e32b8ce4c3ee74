"""The reference manual is made from the code."""

from __future__ import annotations

from pathlib import Path

from upgrader.config.reference_page import render

MANUAL = Path(__file__).parents[3] / "docs/reference/upgrader-yaml.md"


def test_the_manual_is_current() -> None:
    """The file in docs/ is what the models say now; if not, run `python -m upgrader.config.reference_page`."""
    assert MANUAL.read_text() == render()


def test_defaults_are_written_as_in_the_file() -> None:
    """What is copied from the table is valid YAML, and a list isn't called a text."""
    page = render()
    assert "`False`" not in page and "`True`" not in page and "| text | `[]` |" not in page
    assert "| `recipients` | list of text | `[]` |" in page and "`[start, approval, failure, rollback, end]`" in page
