"""Verdicts as text."""

from __future__ import annotations

from upgrader.model.outcome import holds, pending


def test_verdict_is_its_reason_and_the_evidence() -> None:
    """The reason comes first, and each detail is a line below it, indented."""
    assert pending("0 of 1 Ready", "event: Unhealthy", "log: refused").lines() == (
        "0 of 1 Ready",
        "  event: Unhealthy",
        "  log: refused",
    )


def test_verdict_without_evidence_is_one_line() -> None:
    """A reason without details is one line."""
    assert holds("1 of 1 Ready").lines() == ("1 of 1 Ready",)
