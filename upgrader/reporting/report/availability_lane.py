"""What clients of the API saw, beside the steps: a band for each phase, a mark for each recorded failure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from upgrader.engine.state.run_state import RunState
from upgrader.model.availability import Phase
from upgrader.model.counted import counted
from upgrader.model.event import AvailabilityMeasured
from upgrader.model.time_text import milliseconds
from upgrader.reporting.report.bars import Bar, Scale, bar

__all__ = ["AvailabilityLane", "PhaseRow", "availability_lane"]

_UNDO = "undo "


@dataclass(frozen=True)
class PhaseRow:
    """The counts of one phase; `share` is its longest gap compared with the longest of all, in percent."""

    name: str
    requests: int
    failed: int
    raw_failed: int
    gap: str
    share: float


@dataclass(frozen=True)
class AvailabilityLane:
    """The measured values, and their positions."""

    measured: AvailabilityMeasured
    gap: str
    bands: tuple[Bar, ...]
    failures: tuple[float, ...]
    """Where failed requests were due, in percent."""
    rows: tuple[PhaseRow, ...]


def availability_lane(state: RunState, scale: Scale, end: datetime) -> AvailabilityLane | None:
    """The lane of a run; None if nothing was measured, or its process was killed before it recorded the counts."""
    measured = state.availability
    if measured is None:
        return None
    longest = max((phase.longest_gap_ms for phase in measured.phases), default=0.0)
    return AvailabilityLane(
        measured,
        milliseconds(measured.longest_gap_ms),
        tuple(_bands(state, measured.phases, scale, end)),
        tuple(scale.x(time) for time in map(_time_of, measured.failures) if time is not None) if state.spans else (),
        tuple(_row(phase, longest) for phase in measured.phases),
    )


def _row(phase: Phase, longest: float) -> PhaseRow:
    share = round(phase.longest_gap_ms / longest * 100, 2) if longest > 0 else 0.0
    gap = milliseconds(phase.longest_gap_ms)
    return PhaseRow(phase.name or "between steps", phase.requests, phase.failed, phase.raw_failed, gap, share)


def _bands(state: RunState, phases: tuple[Phase, ...], scale: Scale, end: datetime) -> list[Bar]:
    """A phase lasts from the beginning of its step, in the process that measured it, until the next one begins."""
    begins = sorted((time, phase.name, phase) for phase in phases if (time := _begin(state, phase.name)) is not None)
    ends = [time for time, _, _ in begins[1:]] + [end]
    return [
        bar(scale, began, max(began, until), "bad" if phase.failed else "good", _title(phase))
        for (began, _, phase), until in zip(begins, ends, strict=False)
    ]


def _begin(state: RunState, name: str) -> datetime | None:
    if not name:  # outside of any step
        return None
    undo = name.startswith(_UNDO)
    step = name.removeprefix(_UNDO)
    since = state.active_since
    return next(
        (
            span.began
            for span in state.spans
            if span.step == step
            and (span.kind == "undo") == undo
            and span.kind != "gate"
            and (since is None or span.began >= since)
        ),
        None,
    )


def _title(phase: Phase) -> str:
    gap = milliseconds(phase.longest_gap_ms)
    return f"{phase.name}: {counted(phase.requests, 'request')}, {phase.failed:,} failed, longest gap {gap}"


def _time_of(failure: str) -> datetime | None:
    """A failure's line begins with the time at which its request was due."""
    try:
        time = datetime.fromisoformat(failure.partition(" ")[0])
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
