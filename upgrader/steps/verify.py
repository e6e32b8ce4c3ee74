"""A step that changes nothing: its release is as intended, and its gates check that it is healthy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.steps.one_way import OneWay

__all__ = ["VerifyStep"]

_SUMMARY = "nothing to change"


@dataclass(frozen=True)
class VerifyStep(OneWay):
    """Represents a release with nothing to change: a repeated run is quick, and shows the same steps."""

    name: str
    held_with: str = ""
    """The step after which its gates are checked; "" for itself."""

    def summary(self) -> str:
        return f"nothing to change; its gates are checked after step {self.held_with}" if self.held_with else _SUMMARY

    def apply(self, note: Callable[[str], None]) -> None:
        """Nothing to do."""
