"""The time that a campaign's page shows: from its beginning to what is known of its future; with windows and ticks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

from upgrader.fleet.windows import Exclusion, Window
from upgrader.reporting.report.bars import Bar, Scale, Tick, bar

__all__ = ["exclusion_bars", "scale_until", "ticks_of", "window_bars"]

_LEAST = timedelta(hours=1)
_LEAST_FUTURE = timedelta(days=2)
"""What is to come takes no more of the width than what was, or than this: a window may be months away."""
_DAY = 86400
_STEPS = (300, 600, 1800, 3600, 7200, 10800, 21600, 43200, _DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY, 28 * _DAY, 91 * _DAY)
_TICKS = 7
_OPENINGS = 2000
"""More than these aren't drawn: a window may open each minute."""
_JOINED_PERCENT = 0.3


def scale_until(began: datetime, now: datetime, future: Iterable[datetime], *, over: bool) -> Scale:
    """From the beginning to now, and to the last of `future`; `over`: the campaign has ended, at `now`."""
    past = max(now - began, _LEAST)
    most = now + max(past, _LEAST_FUTURE)
    end = began + past if over else max([began + past, *(min(time, most) for time in future)])
    return Scale(began, (end - began).total_seconds())


def ticks_of(scale: Scale) -> tuple[Tick, ...]:
    """Marks at round times, in UTC: days, or hours of a day."""
    step = next((each for each in _STEPS if scale.seconds / each <= _TICKS), _STEPS[-1])
    first = -(-scale.began.timestamp() // step) * step
    times = [datetime.fromtimestamp(first + step * number, UTC) for number in range(_TICKS + 1)]
    end = scale.began + timedelta(seconds=scale.seconds)
    return tuple(Tick(scale.x(time), _label(time, step)) for time in times if time <= end)


def _label(time: datetime, step: int) -> str:
    day = f"{time:%m-%d}"
    return day if step >= _DAY or not (time.hour or time.minute) else f"{time:%H:%M}"


def window_bars(window: Window, scale: Scale) -> tuple[Bar, ...]:
    """When a window is open; what can't be told apart is one bar."""
    end = scale.began + timedelta(seconds=scale.seconds)
    openings = takewhile(lambda opening: opening[0] < end, islice(window.openings(scale.began), _OPENINGS))
    spans = _joined(((opens, min(closes, end)) for opens, closes in openings), scale)
    return tuple(bar(scale, opens, closes, "window", "open") for opens, closes in spans)


def exclusion_bars(exclusion: Exclusion, scale: Scale) -> tuple[Bar, ...]:
    """Its one bar; none outside of the time that is shown."""
    begins, ends = exclusion.span
    shown = begins < scale.began + timedelta(seconds=scale.seconds) and ends > scale.began
    return (bar(scale, begins, ends, "excluded", "no run begins"),) if shown else ()


def _joined(spans: Iterable[tuple[datetime, datetime]], scale: Scale) -> Sequence[tuple[datetime, datetime]]:
    found: list[tuple[datetime, datetime]] = []
    for opens, closes in spans:
        if found and scale.x(opens) - scale.x(found[-1][1]) < _JOINED_PERCENT:
            found[-1] = (found[-1][0], max(found[-1][1], closes))
        else:
            found.append((opens, closes))
    return found
