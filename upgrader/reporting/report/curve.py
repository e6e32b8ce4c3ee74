"""Availability and latency over time, as they are drawn on the timeline's scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import log10
from statistics import median

from upgrader.engine.state.run_state import RunState
from upgrader.model.availability_series import AvailabilitySeries, Sample
from upgrader.model.time_text import duration, milliseconds
from upgrader.reporting.report.bars import Bar, Scale, bar
from upgrader.reporting.report.disturbances import HOLE_SECONDS, Disturbance, disturbances, doing, during, stretches

__all__ = ["Curve", "Failed", "Level", "curve_of"]

_COLUMNS = 400
"""At most so many parts: more could not be told apart on a screen."""
_ROWS = 40
_DECADES = 4
"""From 1 ms, at the bottom, to 10 s, after which a request has failed."""
_HEIGHT = 100.0
_LEAST_FAILED = 8.0
"""One failed request of thousands is still seen (percent of the height)."""


@dataclass(frozen=True)
class Level:
    """A line of the scale of latencies; `y` is percent from the top."""

    y: float
    label: str


@dataclass(frozen=True)
class Failed:
    """Where requests failed: numbers are percent of the width and the height."""

    x: float
    width: float
    y: float
    title: str


@dataclass(frozen=True)
class Curve:
    """The curves of the page. Paths are for a view box of 1000 × 100."""

    bands: tuple[Bar, ...]
    """The steps' changes, gates and rollbacks, behind the curves."""
    measured: tuple[Bar, ...]
    failed: tuple[Failed, ...]
    slowest: str
    """Path of an area."""
    median: str
    """Path of a line."""
    levels: tuple[Level, ...]
    slowest_text: str
    sentence: str
    disturbances: tuple[Disturbance, ...]
    left_out: int
    """How many shorter ones the table doesn't have."""


@dataclass(frozen=True)
class _Part:
    """Neighbouring samples that are drawn as one."""

    samples: tuple[Sample, ...]

    @property
    def began(self) -> datetime:
        return self.samples[0].time

    @property
    def ended(self) -> datetime:
        return self.samples[-1].ended

    @property
    def failed(self) -> int:
        return sum(each.failed for each in self.samples)

    @property
    def answered(self) -> bool:
        return any(each.ok for each in self.samples)


def curve_of(state: RunState, series: AvailabilitySeries, scale: Scale) -> Curve | None:
    """The curves of a run; None without samples, or without a timeline that they could be drawn on."""
    end = state.updated
    if state.started is None or end is None:
        return None
    # The prober is started before the run's first record, and asks once more after its last one.
    around = timedelta(seconds=30)
    samples = [each for each in series.samples if scale.began - around <= each.time <= end + around]
    if not samples:
        return None
    found = list(stretches(samples))
    parts = [part for stretch in found for part in _parts(stretch, scale.seconds / _COLUMNS)]
    longest = sorted(
        disturbances(state, found, scale.began, _measured_until(state, end)),
        key=lambda each: each.seconds,
        reverse=True,
    )
    shown = sorted(longest[:_ROWS], key=lambda each: each.began)
    slowest = max(samples, key=lambda each: each.slowest_ms)
    return Curve(
        bands=tuple(
            bar(scale, span.began, max(span.ended or end, span.began), span.kind, doing(span))
            for span in state.spans
            if span.kind != "gate"
        ),
        measured=tuple(bar(scale, stretch[0].time, stretch[-1].ended, "measured", "") for stretch in found),
        failed=tuple(_failed(part, scale) for part in parts if part.failed),
        slowest=_area(parts, scale),
        median=_line(parts, scale),
        levels=tuple(Level(_y(level), label) for level, label in ((10, "10 ms"), (100, "100 ms"), (1000, "1 s"))),
        slowest_text=milliseconds(slowest.slowest_ms),
        sentence=_sentence(state, samples, slowest),
        disturbances=tuple(shown),
        left_out=len(longest) - len(shown),
    )


def _measured_until(state: RunState, end: datetime) -> datetime:
    """A run that has ended records a few things after its prober was stopped."""
    return max((span.ended or end for span in state.spans), default=end) if state.outcome else end


def _parts(stretch: Sequence[Sample], seconds: float) -> Iterator[_Part]:
    """Parts that are at least so long, where the stretch is."""
    part: list[Sample] = []
    for sample in stretch:
        part.append(sample)
        if (sample.ended - part[0].time).total_seconds() >= seconds:
            yield _Part(tuple(part))
            part = []
    if part:
        yield _Part(tuple(part))


def _failed(part: _Part, scale: Scale) -> Failed:
    requests = sum(max(each.begun, each.ok + each.failed) for each in part.samples)
    share = max(_LEAST_FAILED, part.failed / requests * _HEIGHT)
    place = bar(scale, part.began, part.ended, "", "")
    title = f"{part.began:%H:%M:%S}: {part.failed:,} of {requests:,} requests failed"
    return Failed(place.x, place.width, round(_HEIGHT - share, 1), title)


def _y(value: float) -> float:
    return round(_HEIGHT * (1 - min(1.0, log10(max(1.0, value)) / _DECADES)), 1)


def _runs(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    """Adjacent parts with answered requests: without any, there is no latency to draw."""
    run: list[_Part] = []
    for part in parts:
        hole = bool(run) and (part.began - run[-1].ended).total_seconds() > HOLE_SECONDS
        if run and (hole or not part.answered):
            yield run
            run = []
        if part.answered:
            run.append(part)
    if run:
        yield run


def _steps(run: Sequence[_Part], values: Sequence[float], scale: Scale) -> str:
    """Steps from left to right: a value holds for all of its part."""
    points = []
    for part, value in zip(run, values, strict=True):
        y = _y(value)
        points.append(f"{_thousandth(scale, part.began)},{y} {_thousandth(scale, part.ended)},{y}")
    return " ".join(points)


def _thousandth(scale: Scale, time: datetime) -> float:
    return round(scale.x(time) * 10, 1)


def _area(parts: Sequence[_Part], scale: Scale) -> str:
    drawn = []
    for run in _runs(parts):
        steps = _steps(run, [max(each.slowest_ms for each in part.samples) for part in run], scale)
        left, right = _thousandth(scale, run[0].began), _thousandth(scale, run[-1].ended)
        drawn.append(f"M{left},{_HEIGHT:g} L{steps} L{right},{_HEIGHT:g}Z")
    return "".join(drawn)


def _line(parts: Sequence[_Part], scale: Scale) -> str:
    """The median of a part of several samples is the middle one of theirs."""
    return "".join(
        f"M{_steps(run, [median(each.median_ms for each in part.samples if each.ok) for part in run], scale)}"
        for run in _runs(parts)
    )


def _sentence(state: RunState, samples: Sequence[Sample], slowest: Sample) -> str:
    seconds = sum(each.seconds for each in samples)
    bad = sum(each.seconds for each in samples if each.failed)
    failed = sum(each.failed for each in samples)
    said = f"No request failed in {duration(seconds)} of measuring."
    if failed:
        said = f"{failed:,} requests failed, in {duration(bad)} of the {duration(seconds)} that were measured."
    if not any(each.ok for each in samples):
        return f"{said} None was answered."
    at = f"{slowest.time:%H:%M:%S} ({during(state, slowest.time)})"
    return f"{said} The slowest answer took {milliseconds(slowest.slowest_ms)}, at {at}."
