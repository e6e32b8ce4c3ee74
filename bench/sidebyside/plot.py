"""Availability over time as a picture: one strip for each way, on one axis of time. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from xml.sax.saxutils import escape

from bench.sidebyside.trial import Mark, Trial

__all__ = ["picture", "typical"]

_WIDTH, _LEFT, _RIGHT = 960, 50, 20
_STRIP, _GAP, _TOP = 70, 62, 20
_TICK_SECONDS = 30
_STYLE = """
  text { font: 12px sans-serif; fill: #1f2328 } .title { font-weight: bold } .small { font-size: 10px; fill: #59636e }
  .back { fill: #ffffff } .lost { fill: #f5b5ae } .good { fill: #7fbf8e } .step { stroke: #1f2328; stroke-width: 1 }
  .tick { stroke: #d1d9e0; stroke-width: 1 }
"""


def typical(trials: Sequence[Trial]) -> Trial:
    """The median trial, by failed requests and then by the longest gap."""
    ordered = sorted(trials, key=lambda trial: (trial.seen.failed, trial.seen.longest_gap_ms))
    return ordered[(len(ordered) - 1) // 2]


def picture(trials: Mapping[str, Trial], requests_per_second: float) -> str:
    """An SVG. `trials`: title of a strip → what it shows.

    Green is the share of successful requests in each second, red is the rest.
    """
    seconds = max((len(trial.seen.answered) for trial in trials.values()), default=1) or 1
    scale = (_WIDTH - _LEFT - _RIGHT) / seconds
    height = _TOP + len(trials) * (_STRIP + _GAP) + 20
    label = "Share of requests that were answered, over time, for each way to upgrade"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{_WIDTH}" height="{height}"/>',
    ]
    for number, (title, trial) in enumerate(trials.items()):
        top = _TOP + number * (_STRIP + _GAP) + 30
        parts += _strip(title.replace("`", ""), trial, top, scale, requests_per_second)
    parts += _axis(seconds, height - 24, scale)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _strip(title: str, trial: Trial, top: float, scale: float, rate: float) -> list[str]:
    seen, bottom = trial.seen, top + _STRIP
    summary = f"{seen.failed} of {seen.requests} requests failed, longest gap {seen.longest_gap_ms / 1000:.1f} s"
    width = len(seen.answered) * scale
    parts = [
        f'<text class="title" x="{_LEFT}" y="{top - 18:.0f}">{escape(title)}: {escape(summary)}</text>',
        f'<text class="small" x="{_LEFT - 6}" y="{top + 9:.0f}" text-anchor="end">100 %</text>',
        f'<text class="small" x="{_LEFT - 6}" y="{bottom:.0f}" text-anchor="end">0</text>',
        f'<rect class="lost" x="{_LEFT}" y="{top:.1f}" width="{width:.1f}" height="{_STRIP}"/>',
        f'<path class="good" d="{_area(seen.answered, bottom, scale, rate)}"/>',
    ]
    return parts + _steps(_apart(seen.marks), top, bottom, scale)


def _area(answered: Sequence[float], bottom: float, scale: float, rate: float) -> str:
    points = [f"M{_LEFT},{bottom:.1f}"]
    for second, count in enumerate(answered):
        y = bottom - min(1.0, count / rate) * _STRIP
        points += [f"L{_LEFT + second * scale:.1f},{y:.1f}", f"L{_LEFT + (second + 1) * scale:.1f},{y:.1f}"]
    return " ".join([*points, f"L{_LEFT + len(answered) * scale:.1f},{bottom:.1f} Z"])


def _apart(marks: Sequence[Mark]) -> list[Mark]:
    """Marks of one second share a line."""
    found: list[Mark] = []
    for mark in marks:
        if found and mark.seconds - found[-1].seconds < 1:
            found[-1] = Mark(found[-1].seconds, f"{found[-1].text}, {mark.text}")
        else:
            found.append(mark)
    return found


def _steps(marks: Sequence[Mark], top: float, bottom: float, scale: float) -> list[str]:
    """A line for each step with its name below, in the next row where names would overlap."""
    parts, row, free = [], 0, 0.0
    for mark in marks:
        x = _LEFT + mark.seconds * scale
        row = row + 1 if x < free and row < 1 else 0
        free = x + 6 * len(mark.text) + 6
        parts.append(f'<line class="step" x1="{x:.1f}" y1="{top - 4:.1f}" x2="{x:.1f}" y2="{bottom + 4:.1f}"/>')
        parts.append(f'<text class="small" x="{x + 2:.1f}" y="{bottom + 12 + 11 * row:.1f}">{escape(mark.text)}</text>')
    return parts


def _axis(seconds: int, y: float, scale: float) -> list[str]:
    ticks = range(0, seconds + 1, _TICK_SECONDS)
    lines = [
        f'<text class="small" x="{_LEFT + tick * scale:.1f}" y="{y + 16:.0f}" text-anchor="middle">{tick} s</text>'
        for tick in ticks
    ]
    return [
        f'<line class="tick" x1="{_LEFT + a * scale:.1f}" y1="{y:.0f}" x2="{_LEFT + b * scale:.1f}" y2="{y:.0f}"/>'
        for a, b in pairwise(ticks)
    ] + lines
