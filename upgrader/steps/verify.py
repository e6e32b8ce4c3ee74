"""A step that changes nothing: its release is as it should be, and its gates say whether that is healthy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.model.release import RestorePoint

__all__ = ["VerifyStep"]

_SUMMARY = "nothing to change"


@dataclass(frozen=True)
class VerifyStep:
    """Stands for a release with nothing to change, so that a repeated run is quick but looks all the same."""

    name: str
    held_with: str = ""
    """The step behind which its gates are held; "" for itself."""

    def summary(self) -> str:
        return f"nothing to change; its gates are held with {self.held_with}'s" if self.held_with else _SUMMARY

    def capture(self) -> None:
        return None

    def apply(self, note: Callable[[str], None]) -> None:
        """Nothing to do."""

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Nothing was done."""
