"""Draws a recorded run in the display of a live one, with its time compressed, and always marked as a recording."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TextIO

from upgrader.app.front_end import RunDisplay
from upgrader.app.recorded_run import RecordedRun
from upgrader.cli.ui.live_display import ConsoleReporter, Recording
from upgrader.cli.ui.plain_log import PlainReporter
from upgrader.cli.ui.terminal import console, is_interactive
from upgrader.engine.journal.decode import UnknownEvent
from upgrader.model.event import Event, Note

__all__ = ["LONGEST_PAUSE", "RecordedTime", "replay"]

LONGEST_PAUSE = 2.0
"""The longest wait between two events, in seconds: nights between an interruption and its resumption pass as well."""


def replay(run: RecordedRun, stream: TextIO, speed: float, wait: Callable[[float], bool]) -> None:
    """Show the run, `speed` times as fast as it was; without a terminal all of it at once, in plain lines.

    `wait` waits so many seconds, and returns True where the replay is to end.
    """
    passing = RecordedTime(time.monotonic)
    if is_interactive(stream):
        mark = f"RECORDING of {run.began:%Y-%m-%d} at {speed:g}× speed. It changes nothing. Press Ctrl-C to end it."
        _play(run, ConsoleReporter(console(stream), passing, Recording(run.began, mark)), passing, speed, wait)
        return

    def now() -> datetime:
        return run.began + timedelta(seconds=passing())

    print(f"A recording of {run.began:%Y-%m-%d}: it changes nothing.", file=stream)
    _play(run, PlainReporter(stream, now, passing, prefix="recorded "), passing, math.inf, wait)
    print("The recording ends here.", file=stream, flush=True)


def _play(
    run: RecordedRun, display: RunDisplay, passing: RecordedTime, speed: float, wait: Callable[[float], bool]
) -> None:
    with display:
        for at, event in run.events:
            second = (at - run.began).total_seconds()
            if wait(passing.until(second, speed)):
                return
            passing.until(second, math.inf)  # a wait may end a little early
            display.emit(_shown(event))


def _shown(event: Event | UnknownEvent) -> Event:
    if isinstance(event, UnknownEvent):
        return Note(f"an unknown event, from a newer version of upgrader: {event.type[:60]}")
    return event


@dataclass(frozen=True)
class _Stretch:
    """Recorded seconds that pass from `began`, on our clock, within so many of ours."""

    start: float
    end: float
    began: float
    seconds: float


class RecordedTime:
    """The seconds of a recording, as they pass now; a display asks for them at any moment."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._stretch = _Stretch(0.0, 0.0, 0.0, 0.0)

    def __call__(self) -> float:
        """Now, in seconds since the recording began."""
        now = self._stretch
        if not now.seconds:
            return now.end
        share = min(1.0, (self._monotonic() - now.began) / now.seconds)
        return now.start + share * (now.end - now.start)

    def until(self, end: float, speed: float) -> float:
        """From now on, pass to the second `end`; returns how many of our seconds that takes.

        It never goes back, as the clock of a machine may have been set.
        """
        start = self._stretch.end
        seconds = min(LONGEST_PAUSE, max(0.0, end - start) / speed)
        self._stretch = _Stretch(start, max(start, end), self._monotonic(), seconds)
        return seconds
