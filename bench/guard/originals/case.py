"""A case, and what each side did in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.guard.originals.side import Side

__all__ = ["Case"]


@dataclass(frozen=True)
class Case:
    """`run` brings about the same on either side, leaves nothing behind, and gives what it saw in a few words."""

    key: str
    what: str
    run: Callable[[Side], str]
