"""docs/questions.md and the searches of the documentation's site belong together."""

from __future__ import annotations

from testkit.questions import PAGES, ROWS, WORDS


def test_each_question_has_a_search() -> None:
    """No row of the page is forgotten by the soak test that searches the site for it, and there are at least twenty."""
    assert set(WORDS) == set(PAGES) and len(PAGES) == len(ROWS) >= 20
