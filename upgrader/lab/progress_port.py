"""How the lab tells what it is doing; the command line decides what that looks like."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

__all__ = ["LabProgress", "Silent", "Task"]


class Task(Protocol):
    """One piece of work in progress."""

    def total(self, units: int) -> None:
        """Set how many units the work has, once that is known."""

    def advance(self, units: int = 1) -> None:
        """Tell that so many more units are done."""


class LabProgress(Protocol):
    """Where progress goes: a terminal, a log, or nowhere."""

    def task(self, title: str, *, seconds: float | None = None) -> AbstractContextManager[Task]:
        """Show `title` until the context ends; `seconds` is how long it usually takes, if that is known."""


class _SilentTask:
    def total(self, units: int) -> None:
        """Nobody looks."""

    def advance(self, units: int = 1) -> None:
        """Nobody looks."""


class Silent:
    """Shows nothing: for tests, and for callers with a display of their own."""

    @contextmanager
    def task(self, title: str, *, seconds: float | None = None) -> Iterator[Task]:
        """Show nothing."""
        yield _SilentTask()
