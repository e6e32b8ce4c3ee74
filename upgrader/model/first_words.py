"""The line of a reason that is shown when there is room for only one."""

from __future__ import annotations

__all__ = ["first_words"]


def first_words(reason: str) -> str:
    """Its first line; if that only announces the next one (`failed on 1 of the hosts:`), both. "" for an empty text."""
    lines = [line.strip() for line in reason.strip().splitlines()]
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[1]}"
    return lines[0] if lines else ""
