"""When requests failed in a run, and when nothing was measured: a table, for users who can't see the curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from upgrader.engine.state.run_state import RunState
from upgrader.engine.state.timeline import Span
from upgrader.model.availability_series import Sample
from upgrader.model.time_text import duration

__all__ = ["HOLE_SECONDS", "Disturbance", "disturbances", "doing", "during", "stretches"]

HOLE_SECONDS = 2.5
"""A longer time between two samples is one in which nothing was measured."""
_STALL_MS = 1000.0
_SPANS = {"apply": "change", "gates": "gates", "undo": "rollback", "recovery": "recovery"}


@dataclass(frozen=True)
class Disturbance:
    """A time in which requests failed, or in which nothing was measured."""

    began: datetime
    seconds: float
    during: str
    """The step, and its activity."""
    failed: int
    requests: int
    what: str

    @property
    def took(self) -> str:
        return duration(self.seconds)


def stretches(samples: Sequence[Sample]) -> Iterator[list[Sample]]:
    """Samples without a hole between them."""
    stretch: list[Sample] = []
    for sample in samples:
        if stretch and (sample.time - stretch[-1].ended).total_seconds() > HOLE_SECONDS:
            yield stretch
            stretch = []
        stretch.append(sample)
    if stretch:
        yield stretch


def disturbances(
    state: RunState, found: Sequence[Sequence[Sample]], began: datetime, ended: datetime
) -> Iterator[Disturbance]:
    """All of them, in no order; `found` are the stretches of samples between two times."""
    reached = began
    for stretch in found:
        yield from _hole(state, reached, stretch[0].time)
        yield from _of_stretch(state, stretch)
        reached = max(reached, stretch[-1].ended)
    yield from _hole(state, reached, ended)


def _hole(state: RunState, began: datetime, ended: datetime) -> Iterator[Disturbance]:
    seconds = (ended - began).total_seconds()
    if seconds > HOLE_SECONDS:
        yield Disturbance(began, seconds, during(state, began), 0, 0, "nothing was measured")


def _of_stretch(state: RunState, stretch: Sequence[Sample]) -> Iterator[Disturbance]:
    bad: list[Sample] = []
    for sample in (*stretch, None):
        # One good second between two bad ones doesn't end what is one disturbance for people.
        if bad and (sample is None or (sample.time - bad[-1].ended).total_seconds() > HOLE_SECONDS):
            yield _disturbance(state, bad)
            bad = []
        if sample is None:
            return
        if sample.failed:
            bad.append(sample)
        if sample.stalled_ms >= _STALL_MS:
            seconds = sample.stalled_ms / 1000
            what = "the prober itself did not run: latencies contain that time"
            yield Disturbance(sample.time, seconds, during(state, sample.time), 0, 0, what)


def _disturbance(state: RunState, bad: Sequence[Sample]) -> Disturbance:
    seconds = (bad[-1].ended - bad[0].time).total_seconds()
    failed = sum(each.failed for each in bad)
    kinds: dict[str, int] = {}
    for sample in bad:
        for name, kind in sample.kinds.items():
            kinds[name] = kinds.get(name, 0) + kind.failed
    what = ", ".join(f"{count:,} {name}" for name, count in sorted(kinds.items()) if count)
    requests = sum(max(each.begun, each.ok + each.failed) for each in bad)
    return Disturbance(bad[0].time, seconds, during(state, bad[0].time), failed, requests, what)


def doing(span: Span) -> str:
    """A step, and its activity; a recovery belongs to none."""
    return f"{span.step}: {_SPANS.get(span.kind, span.kind)}" if span.step else _SPANS.get(span.kind, span.kind)


def during(state: RunState, time: datetime) -> str:
    """The run's activity at a time."""
    at = [
        span
        for span in state.spans
        if span.kind != "gate" and span.began <= time and (span.ended is None or time < span.ended)
    ]
    return doing(max(at, key=lambda span: span.began)) if at else "between steps"
