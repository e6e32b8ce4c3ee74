"""How the lab reports progress; the command line decides how to show it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

__all__ = ["LabProgress", "Silent", "Task"]


class Task(Protocol):
    """One piece of work in progress."""

    def total(self, units: int) -> None:
        """Set the total number of units, once it is known."""

    def advance(self, units: int = 1) -> None:
        """Report that so many more units are done."""


class LabProgress(Protocol):
    """Where progress is shown: on a terminal, in a log, or not at all."""

    def task(self, title: str, *, seconds: float | None = None) -> AbstractContextManager[Task]:
        """Show `title` until the context ends; `seconds` is how long it usually takes, if known."""


class _SilentTask:
    def total(self, units: int) -> None:
        """Shows nothing."""

    def advance(self, units: int = 1) -> None:
        """Shows nothing."""


class Silent:
    """Shows nothing: for tests, and for callers with a display of their own."""

    @contextmanager
    def task(self, title: str, *, seconds: float | None = None) -> Iterator[Task]:
        """Show nothing."""
        yield _SilentTask()
