"""Numbers with their nouns."""

from __future__ import annotations

import pytest

from upgrader.model.counted import counted


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 clusters"), (1, "1 cluster"), (2, "2 clusters"), (2000, "2,000 clusters")]
)
def test_counted(number: int, text: str) -> None:
    """Only one of them is singular."""
    assert counted(number, "cluster") == text
