"""A run's samples: what could not be kept is said, and is no error of the run."""

from __future__ import annotations

from pathlib import Path

from upgrader.app.probing import recording
from upgrader.gates.availability.series_file import SERIES, read_series
from upgrader.model.event import Event, Note


class Shown:
    """A display that remembers what it shows."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


SAMPLE = {
    "time": "2026-01-01T00:00:00.000Z",
    "seconds": 1.0,
    "begun": 1,
    "ok": 1,
    "failed": 0,
    "median_ms": 2.0,
    "slowest_ms": 2.0,
    "stalled_ms": 0.0,
    "kinds": {},
}


def test_what_is_kept_needs_no_words(tmp_path: Path) -> None:
    """All samples are in the file when the run's report is made, and nothing is said."""
    shown = Shown()
    with recording(tmp_path / SERIES, shown) as writer:
        writer.append([SAMPLE])
    assert len(read_series(tmp_path / SERIES).samples) == 1
    assert shown.events == []


def test_what_could_not_be_kept_is_said(tmp_path: Path) -> None:
    """The run's folder takes no file: the run goes on, and its end says what its report lacks, and why."""
    shown = Shown()
    with recording(tmp_path / "missing" / SERIES, shown) as writer:
        writer.append([SAMPLE])
    assert shown.events == [
        Note(
            "availability.jsonl: some samples could not be written: No such file or directory; "
            "the report's API graphs are incomplete"
        )
    ]
