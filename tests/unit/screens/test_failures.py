"""What an operator sees first of a failure: object, cause and next command, on 80×24, without scrolling."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.terminal import COLUMNS, LINES
from tests.unit.screens.failures import FAILURES, Failure
from tests.unit.screens.page import render, seen


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_first_screen_says_what_why_and_what_next(failure: Failure) -> None:
    """All three are there when the command has ended, whatever was printed before, with its exit code."""
    shown = seen(failure)
    assert len(shown.lines) == LINES and all(len(line) <= COLUMNS for line in shown.lines)
    assert shown.lacks(*failure.object, *failure.cause, *failure.next) == [], f"\n{shown}"
    assert shown.exit_code == failure.exit_code


def test_page_is_current() -> None:
    """docs/reference/failures.md is what `make docs` makes: screens as they are."""
    page = Path(__file__).parents[3] / "docs/reference/failures.md"
    assert page.read_text() == f"{render().rstrip()}\n", "run `make docs`"
