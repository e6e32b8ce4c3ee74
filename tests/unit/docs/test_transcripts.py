"""How a page's console block is compared with what was seen."""

from __future__ import annotations

import pytest

from testkit.console_page import Step, differences


@pytest.mark.parametrize(
    ("page", "seen", "same"),
    [
        ("", "", True),
        ("", "a", False),
        ("a", "a", True),
        ("a…c", "abbc", True),
        ("…", "", True),
        ("…", "a\nb", True),
        ("…\nb", "b", True),
        ("…\nb", "a\nb", True),
        ("…\nb", "ab", False),
        ("a\n…\nz", "a\nq\nr\nz", True),
        ("a\n…\nz", "az", False),
        ("a\nb", "a  \n\nb", True),
    ],
)
def test_what_a_page_leaves_out(page: str, seen: str, same: bool) -> None:
    """`…` is any text in a line, and alone any lines, also none; the rest has to be there."""
    expected, was = (Step("x", tuple(text.splitlines())) for text in (page, seen))
    assert (differences([expected], [was]) == "") is same
