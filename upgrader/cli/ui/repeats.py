"""Finds events that repeat the previous line: gates are checked every second, and the prober's counts only grow."""

from __future__ import annotations

import time
from collections.abc import Callable

from upgrader.model.event import AvailabilityMeasured, Event, GateChecked, Note

__all__ = ["REPEAT_SECONDS", "Repeats"]

REPEAT_SECONDS = 10.0
"""How often a gate with the same answer, and a count that only grows, are written again."""


class Repeats:
    """Stores the last line of each topic, and its time."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._written: dict[str, tuple[str, float]] = {}

    def skip(self, event: Event) -> bool:
        """Whether it repeats the last line of its topic; otherwise it counts as written now."""
        topic = _topic(event)
        if not topic:
            return False
        last, when = self._written.get(topic, ("", 0.0))
        due = last == "" or self._monotonic() - when >= REPEAT_SECONDS
        if not due and _gist(event) == last:
            return True
        self._written[topic] = (_gist(event), self._monotonic())
        return False


def _topic(event: Event) -> str:
    """The topic of an event; "" if it is always written."""
    match event:
        case GateChecked():
            return f"{event.step}/{event.gate}"
        case Note():
            return "note"
        case AvailabilityMeasured():
            return "availability"
        case _:
            return ""


def _gist(event: Event) -> str:
    """The same for events of a topic that report the same; growing numbers don't count."""
    match event:
        case GateChecked():
            return f"{event.verdict.kind} {event.verdict.reason}"
        case Note():
            return event.text
        case AvailabilityMeasured():
            return f"{event.failed} failed"
        case _:
            return ""
