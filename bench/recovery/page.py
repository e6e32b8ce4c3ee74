"""Results as tables for people and as JSON for machines."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bench.recovery.measure import Result

__all__ = ["as_json", "boot_table", "cause_table", "cut_table"]


def cause_table(results: Sequence[Result]) -> str:
    """Markdown: one row for each cause and what fixed it, medians over its measurements."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.cause, result.fixed_by), []).append(result)
    rows = [
        (
            cause,
            fixed_by,
            _median(r.ssh for r in group),
            _median(r.api for r in group),
            _median(r.done for r in group),
            _gaps(group),
            str(len(group)),
            "; ".join(dict.fromkeys(r.note for r in group if r.note)),
        )
        for (cause, fixed_by), group in groups.items()
    ]
    return _table(("cause", "fixed by", "SSH, s", "API, s", "all done, s", "lost again", "times", ""), rows)


def cut_table(results: Sequence[Result]) -> str:
    """Markdown: one row for each power cut, in the order of time."""
    rows = [(r.cause, _seconds(r.ssh), _seconds(r.api), _seconds(r.done), _gaps([r]), r.note) for r in results]
    return _table(("cut", "SSH, s", "API, s", "all done, s", "lost again", "the run"), rows)


def boot_table(results: Iterable[Result]) -> str:
    """Markdown: when a boot reached each milestone, in seconds after power on, medians."""
    times: dict[str, list[float]] = {}
    for result in results:
        for name, seconds in result.milestones.items():
            times.setdefault(name, []).append(seconds)
    rows = [(name, f"{statistics.median(seconds):.2f}") for name, seconds in times.items()]
    return _table(("what", "after, s"), rows)


def as_json(results: Iterable[Result]) -> list[Mapping[str, Any]]:
    """The results, field by field."""
    return [asdict(result) for result in results]


def _gaps(results: Iterable[Result]) -> str:
    """How often the API became unreachable again, and for how long at most."""
    found = [gap for result in results for gap in result.lost_again]
    return f"{len(found)} × ≤ {max(found):.1f} s" if found else "no"


def _median(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return _seconds(statistics.median(known) if known else None)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
