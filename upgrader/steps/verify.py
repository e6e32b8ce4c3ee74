"""A step that changes nothing: its release is as it should be, and its gates say whether that is healthy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.model.release import RestorePoint

__all__ = ["VerifyStep"]


@dataclass(frozen=True)
class VerifyStep:
    """Stands for a release with nothing to change, so that a repeated run is quick but looks all the same."""

    name: str

    def summary(self) -> str:
        return "nothing to change"

    def capture(self) -> None:
        return None

    def apply(self, note: Callable[[str], None]) -> None:
        """Nothing to do."""

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Nothing was done."""
