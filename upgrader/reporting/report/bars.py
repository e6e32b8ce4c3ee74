"""The geometry of a timeline: where each activity is, in percent of the width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from upgrader.engine.state.run_state import RunState
from upgrader.engine.state.timeline import Span
from upgrader.model.time_text import duration

__all__ = ["Bar", "Scale", "Tick", "bar", "scale_of"]

_IDLE_SECONDS = 60.0
_IDLE_SHARE = 0.15
"""A pause that takes more of the time than this, and more than `_IDLE_SECONDS`, is cut…"""
_CUT_SHARE = 0.04
"""…to this share of the rest: a run that was resumed on the next day would be two dots otherwise."""
_STEPS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
_TICKS = 6
_LEAST_WIDTH = 0.35


@dataclass(frozen=True)
class Bar:
    """A part of a row. Numbers are percent of the row's width."""

    x: float
    width: float
    kind: str
    """Its kind, for the style sheet: `apply`, `gates`, `undo`, …"""
    title: str
    """For a pointer that rests on it."""


@dataclass(frozen=True)
class Tick:
    """A mark of the scale."""

    x: float
    label: str


@dataclass(frozen=True)
class Scale:
    """Maps times to positions; long pauses between processes are cut."""

    began: datetime
    seconds: float
    """The whole time that is shown, without the pauses that were cut."""
    cuts: tuple[tuple[float, float, float], ...] = ()
    """Pauses: where each begins, how long it is, how long it is drawn (seconds)."""

    def x(self, time: datetime) -> float:
        """Where a time is: 0 to 100."""
        shown = seconds = (time - self.began).total_seconds()
        for begin, length, drawn in self.cuts:
            shown -= max(0.0, min(1.0, (seconds - begin) / length)) * (length - drawn)
        return round(max(0.0, min(100.0, shown / self.seconds * 100)), 3)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """A few marks at round times."""
        if self.cuts:
            return (Tick(0.0, "0"),)
        step = next((each for each in _STEPS if self.seconds / each <= _TICKS), self.seconds / _TICKS)
        count = int(self.seconds // step)
        marks = [
            Tick(round(number * step / self.seconds * 100, 3), _label(number * step, step))
            for number in range(count + 1)
        ]
        return tuple(marks)

    @property
    def worked_seconds(self) -> float:
        """The time that is shown, without the pauses."""
        return self.seconds - sum(drawn for _, _, drawn in self.cuts)

    @property
    def cut_marks(self) -> tuple[Tick, ...]:
        """Where a pause was cut, and how long it was."""
        found = []
        before = 0.0
        for begin, length, drawn in self.cuts:
            x = (begin - before + drawn / 2) / self.seconds * 100
            found.append(Tick(round(x, 3), f"pause of {duration(length)}"))
            before += length - drawn
        return tuple(found)


def scale_of(state: RunState) -> Scale:
    """The scale that shows all of a run."""
    times = [time for span in state.spans for time in (span.began, span.ended) if time]
    times += [time for time in (state.started, state.updated) if time]
    if not times:
        return Scale(datetime.min.replace(tzinfo=UTC), 1.0)
    began, ended = min(times), max(times)
    total = max(1.0, (ended - began).total_seconds())
    pauses = [(begin, length) for begin, length in _pauses(state.spans, began, ended) if length > _IDLE_SECONDS]
    pauses = [(begin, length) for begin, length in pauses if length > total * _IDLE_SHARE]
    rest = total - sum(length for _, length in pauses)
    drawn = max(1.0, rest * _CUT_SHARE)
    return Scale(began, rest + drawn * len(pauses), tuple((begin, length, drawn) for begin, length in pauses))


def bar(scale: Scale, began: datetime, ended: datetime, kind: str, title: str) -> Bar:
    """A bar between two times, wide enough to be seen."""
    x = min(scale.x(began), 100.0 - _LEAST_WIDTH)
    return Bar(x, round(max(scale.x(ended) - x, _LEAST_WIDTH), 3), kind, title)


def _pauses(spans: Sequence[Span], began: datetime, ended: datetime) -> list[tuple[float, float]]:
    """When nothing went on: the seconds since the beginning, and how long."""
    found, reached = [], began
    for span in sorted(spans, key=lambda each: each.began):
        if span.began > reached:
            found.append(((reached - began).total_seconds(), (span.began - reached).total_seconds()))
        reached = max(reached, span.ended or ended)
    if ended > reached:
        found.append(((reached - began).total_seconds(), (ended - reached).total_seconds()))
    return found


def _label(seconds: float, step: float) -> str:
    """In the unit of the step between marks, so that all are whole numbers."""
    if not seconds:
        return "0"
    if step < 60:
        return f"{seconds:g} s"
    if step < 3600:
        return f"{seconds / 60:g} min"
    return f"{seconds / 3600:g} h"
