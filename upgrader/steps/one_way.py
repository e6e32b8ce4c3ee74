"""What steps have in common that nothing of their own undoes."""

from __future__ import annotations

from collections.abc import Callable

from upgrader.model.release import RestorePoint

__all__ = ["OneWay"]


class OneWay:
    """A step without an undo: it is repeated or continued, or another step undoes it."""

    def capture(self) -> None:
        return None

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Nothing."""
