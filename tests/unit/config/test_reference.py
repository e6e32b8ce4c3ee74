"""The reference manual is made from the code."""

from __future__ import annotations

from pathlib import Path

from upgrader.config.reference_page import render

MANUAL = Path(__file__).parents[3] / "docs/reference/upgrader-yaml.md"


def test_the_manual_is_current() -> None:
    """The file in docs/ is what the models say now; if not, run `python -m upgrader.config.reference_page`."""
    assert MANUAL.read_text() == render()
