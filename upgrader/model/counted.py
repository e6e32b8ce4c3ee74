"""A number with its noun."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, noun: str) -> str:
    """`1 cluster`, `2,000 clusters`; for nouns whose plural has only an `s` more."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
