"""Informs the prober which step runs."""

from __future__ import annotations

from collections.abc import Callable

from upgrader.model.event import ApprovalRequested, Event, StepInspected, StepStarted, UndoStarted

__all__ = ["Phases"]


class Phases:
    """A Reporter. A step's phase begins with it and lasts until the next one's.

    Its undo is a phase of its own, and so is the wait for its approval.
    """

    def __init__(self, enter: Callable[[str], None]) -> None:
        self._enter = enter

    def emit(self, event: Event) -> None:
        """Enter a new phase if the event starts one."""
        match event:
            case StepStarted() | StepInspected():
                self._enter(event.step)
            case ApprovalRequested():  # hours of it would count for the step before
                self._enter(f"approval {event.step}")
            case UndoStarted():
                self._enter(f"undo {event.step}")
            case _:
                pass
