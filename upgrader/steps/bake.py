"""A step that changes nothing, and whose gates are held for a while."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.model.release import RestorePoint

__all__ = ["BakeStep"]


@dataclass(frozen=True)
class BakeStep:
    """The end of a run that bakes: what takes minutes to go wrong is still rolled back by the run."""

    name: str
    seconds: float

    def summary(self) -> str:
        return f"hold all gates for {self.seconds:.0f} s"

    def capture(self) -> None:
        return None

    def apply(self, note: Callable[[str], None]) -> None:
        """Nothing to do: its gates do the work."""

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Nothing was done."""
