"""Two runs side by side: how long each step took, and what clients of the API saw."""

from __future__ import annotations

from dataclasses import dataclass

from upgrader.engine.state.run_state import RunState
from upgrader.model.redaction.markdown import code, table
from upgrader.model.time_text import duration, milliseconds
from upgrader.reporting.report.outcome_words import step_seconds, step_status

__all__ = ["Comparison", "Row", "compared", "comparison_markdown", "difference_text", "outcome_text", "time_text"]


@dataclass(frozen=True)
class Row:
    """A step in both runs. Seconds are None where it did not run, or where its time is not known."""

    name: str
    seconds: tuple[float | None, float | None]
    outcomes: tuple[str, str]

    @property
    def difference(self) -> float | None:
        """How many seconds longer it took in the second run; None if that is unknown."""
        before, after = self.seconds
        return after - before if before is not None and after is not None else None


@dataclass(frozen=True)
class Comparison:
    """Two runs."""

    runs: tuple[str, str]
    rows: tuple[Row, ...]
    """Every step of either, in the first one's order; the whole run is the last row."""
    failed: tuple[str, str]
    """The requests that failed, of how many."""
    gaps: tuple[str, str]


def compared(first: RunState, second: RunState) -> Comparison:
    """The comparison of two runs."""
    names = list(dict.fromkeys(step.name for state in (first, second) for step in state.all_steps))
    rows = [
        Row(name, (_seconds(first, name), _seconds(second, name)), _outcomes(first, second, name)) for name in names
    ]
    whole = Row("whole run", (first.seconds or None, second.seconds or None), (str(first.result), str(second.result)))
    return Comparison(
        (first.run, second.run),
        (*rows, whole),
        (_failed(first), _failed(second)),
        (_gap(first), _gap(second)),
    )


def comparison_markdown(found: Comparison) -> str:
    """The comparison as a table."""
    rows = [
        (code(row.name), *(time_text(seconds) for seconds in row.seconds), difference_text(row), outcome_text(row))
        for row in found.rows
    ]
    rows += [
        ("API requests failed", *found.failed, "", ""),
        ("longest gap of the API", *found.gaps, "", ""),
    ]
    return table(("step", *(code(run) for run in found.runs), "difference", "outcome"), rows)


def difference_text(row: Row) -> str:
    """`+4.0 s`, `-12 s`; "" if that is unknown."""
    change = row.difference
    if change is None:
        return ""
    return f"{'+' if change >= 0 else '-'}{duration(abs(change))}"


def outcome_text(row: Row) -> str:
    """One word where both ended alike, else both."""
    return " → ".join(dict.fromkeys(each.replace("rolled-back", "rolled back") for each in row.outcomes))


def time_text(seconds: float | None) -> str:
    """A duration; `-` where there is none."""
    return "-" if seconds is None else duration(seconds)


def _seconds(state: RunState, name: str) -> float | None:
    step = state.step(name)
    return (step_seconds(step) or None) if step else None


def _outcomes(first: RunState, second: RunState, name: str) -> tuple[str, str]:
    def of(state: RunState) -> str:
        step = next((step for step in state.all_steps if step.name == name), None)
        return step_status(step)[1] if step else "no such step"

    return of(first), of(second)


def _failed(state: RunState) -> str:
    seen = state.availability
    return f"{seen.failed:,} of {seen.requests:,}" if seen else "not known"


def _gap(state: RunState) -> str:
    return milliseconds(state.availability.longest_gap_ms) if state.availability else "not known"
