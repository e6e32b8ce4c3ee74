"""The journal on disk, and the report that is folded from it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tests.fakes.clock import FakeClock
from upgrader.engine.journal import Journal, read_journal
from upgrader.engine.report import fold
from upgrader.errors import UsageError
from upgrader.model.event import (
    AvailabilityMeasured,
    Event,
    GateLooked,
    GatePassed,
    RunEnded,
    RunStarted,
    StepApplied,
    StepEnded,
    StepStarted,
    UndoEnded,
    UndoStarted,
)
from upgrader.model.outcome import pending
from upgrader.model.release import RestorePoint

STORY: tuple[Event, ...] = (
    RunStarted("r1", "v1.37.1", ("a", "b"), "/runs/r1"),
    StepStarted("a", "v1 → v2", RestorePoint("a", "kube-system", 4)),
    StepApplied("a", 3.0),
    GateLooked("a", "nodes", pending("1 of 2"), 0, 3, 10.0),
    GatePassed("a", "nodes", 2.0, 4),
    StepEnded("a", "passed", 5.0),
    StepStarted("b", "install", RestorePoint("b", "kube-system", None)),
    StepEnded("b", "failed", 1.0, "unknown flag"),
    UndoStarted("b", "not installed"),
    UndoEnded("b", True, 1.0),
    UndoStarted("a", "revision 4"),
    UndoEnded("a", False, 1.0, "no"),
    AvailabilityMeasured(100, 0, 1, 80.5),
    RunEnded("r1", "failed", 9.0, "unknown flag"),
)


def write(path: Path, *events: Event) -> Path:
    """A journal of these events."""
    journal = Journal(path, FakeClock())
    for event in events:
        journal.emit(event)
    journal.close()
    return path


def test_report_tells_the_whole_story(tmp_path: Path) -> None:
    """The report has each step's outcome, its gates, what clients saw, and how the run ended."""
    report = fold(read_journal(write(tmp_path / "journal.jsonl", *STORY)))
    assert [(step.name, step.outcome) for step in report.steps] == [("a", "undo-failed"), ("b", "undone")]
    assert report.steps[0].way_back == "revision 4" and report.steps[1].way_back == "not installed"
    assert [(gate.name, gate.outcome) for gate in report.steps[0].gates] == [("nodes", "held")]
    assert (report.outcome, report.reason) == ("failed", "unknown flag")
    assert report.availability["longest_gap_ms"] == 80.5
    json.dumps(report.as_json())


@pytest.mark.parametrize("length", range(len(STORY)))
def test_every_beginning_of_a_journal_makes_a_report(tmp_path: Path, length: int) -> None:
    """However far a run got before it was killed, its journal folds, and says `interrupted`, never `succeeded`."""
    report = fold(read_journal(write(tmp_path / "journal.jsonl", *STORY[:length])))
    assert report.outcome == "interrupted"
    started = [event.step for event in STORY[:length] if isinstance(event, StepStarted)]
    assert [step.name for step in report.steps] == started


def test_step_that_was_cut_off_is_in_doubt(tmp_path: Path) -> None:
    """A step with a beginning and no end is neither passed nor failed."""
    report = fold(read_journal(write(tmp_path / "journal.jsonl", *STORY[:3])))
    assert report.steps[0].outcome == "in-doubt"


def test_torn_last_line_is_passed_over(tmp_path: Path) -> None:
    """A crash in the middle of a write loses that line and nothing else."""
    path = write(tmp_path / "journal.jsonl", *STORY)
    path.write_bytes(path.read_bytes()[:-7])
    assert len(read_journal(path)) == len(STORY) - 1


@pytest.mark.parametrize(
    "damage", [b"garbage\n", b'{"schema":1,"seq":7,"time":"2026-01-01T00:00:00Z","type":"Note","data":{}}\n']
)
def test_damage_inside_is_refused_by_line(tmp_path: Path, damage: bytes) -> None:
    """A journal that is damaged anywhere but at its end is refused, and the line is named."""
    path = write(tmp_path / "journal.jsonl", *STORY)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], damage, *lines[3:]]))
    with pytest.raises(UsageError, match=r"journal\.jsonl:3:"):
        read_journal(path)


def test_journal_is_private(tmp_path: Path) -> None:
    """Nobody but its owner can read a journal."""
    path = write(tmp_path / "journal.jsonl", *STORY)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_events_are_on_disk_when_emit_returns(tmp_path: Path) -> None:
    """Another process sees an event as soon as `emit` has come back, with nothing flushed or closed."""
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, FakeClock())
    journal.emit(STORY[0])
    assert read_journal(path)[0].data["run"] == "r1"


def test_unchanged_answers_of_a_gate_are_written_once(tmp_path: Path) -> None:
    """A gate that gives the same answer a hundred times makes one line, not a hundred."""
    looks = [GateLooked("a", "nodes", pending("1 of 2"), 0, 3, float(left)) for left in range(100)]
    assert len(read_journal(write(tmp_path / "journal.jsonl", *looks))) == 1
