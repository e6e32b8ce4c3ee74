"""How a title names many objects."""

from __future__ import annotations

from upgrader.model.first_few import first_few


def test_three_are_named_and_the_others_counted() -> None:
    """A title stays one line, and says how much it leaves out."""
    assert first_few(["a"]) == "a"
    assert first_few(["a", "b", "c"]) == "a, b, c"
    assert first_few(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
