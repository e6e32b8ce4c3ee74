"""What is measured of reports."""

from __future__ import annotations

from bench.report import lines_of, measured, talkative


def test_journal_is_one_that_a_run_writes() -> None:
    """Its lines are valid, and a node's gate has answered as often as was wanted."""
    content = lines_of(talkative(4, nodes=3))
    assert content.count(b'"type":"GateChecked"') == 3 * (4 + 1)
    assert measured(content)[0] > 0
