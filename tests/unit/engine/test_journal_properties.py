"""Journals of arbitrary events, cut and damaged at arbitrary places: what is read was written, or it is refused."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testkit.fakes.clock import FakeClock
from upgrader.engine.journal.journal_file import Journal, read_journal
from upgrader.engine.state.event_fold import fold
from upgrader.engine.state.report import report_json
from upgrader.errors import UsageError
from upgrader.model.event import (
    Event,
    GateChecked,
    RollbackRequested,
    RunEnded,
    RunResumed,
    RunStarted,
    StepEnded,
    StepStarted,
)
from upgrader.model.outcome import Verdict
from upgrader.model.version import KubernetesVersion

st.register_type_strategy(float, st.floats(allow_nan=False))  # NaN is not JSON, and not even equal to itself
st.register_type_strategy(KubernetesVersion, st.builds(KubernetesVersion, *[st.integers(0, 2000)] * 3))

EVENTS = st.lists(st.one_of(*(st.from_type(kind) for kind in get_args(Event))), max_size=12)
SOME = EVENTS.filter(bool)


def written(events: list[Event]) -> bytes:
    """The bytes of a journal of these events."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        journal = Journal(path, FakeClock())
        for event in events:
            journal.emit(event)
        journal.close()
        return path.read_bytes()


def read(content: bytes) -> list[object]:
    """The events of a journal with these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        path.write_bytes(content)
        records = read_journal(path)
    json.dumps(report_json(fold(records)))
    return [record.event for record in records]


def news(events: list[Event]) -> list[Event]:
    """The events without checks that repeat what the gate answered before."""
    answers: dict[tuple[str, str], Verdict] = {}
    found = []
    for event in events:
        if isinstance(event, GateChecked):
            before = answers.get((event.step, event.gate))
            if before and (before.kind, before.reason) == (event.verdict.kind, event.verdict.reason):
                continue
            answers[event.step, event.gate] = event.verdict
        found.append(event)
    return found


@given(EVENTS)
def test_what_is_read_is_what_was_written(events: list[Event]) -> None:
    """Every event of every type comes back from the disk equal to what it was, in order."""
    assert read(written(events)) == news(events)


@given(EVENTS, st.data())
def test_every_cut_leaves_a_beginning(events: list[Event], data: st.DataObject) -> None:
    """Cut at any byte, a journal is readable: it holds the events whose lines are complete, and claims nothing else."""
    content = written(events)
    cut = content[: data.draw(st.integers(0, len(content)))]
    assert read(cut) == news(events)[: cut.count(b"\n")]


@given(SOME, st.data())
def test_no_changed_byte_is_believed(events: list[Event], data: st.DataObject) -> None:
    """With any one byte changed, a journal is refused, or (when it was the last end of line) one line shorter."""
    content = written(events)
    at = data.draw(st.integers(0, len(content) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != content[at]))
    damaged = content[:at] + bytes([byte]) + content[at + 1 :]
    if at == len(content) - 1:
        assert read(damaged) == news(events)[:-1]
    else:
        with pytest.raises(UsageError, match=r"journal\.jsonl:\d+: "):
            read(damaged)


@given(SOME, st.data())
def test_no_rearranged_lines_are_believed(events: list[Event], data: st.DataObject) -> None:
    """Lines in any other order, duplicated or with gaps are refused; only a prefix of the journal is valid."""
    lines = written(events).splitlines(keepends=True)
    other = data.draw(st.lists(st.sampled_from(lines), max_size=len(lines) + 1))
    try:
        found = read(b"".join(other))
    except UsageError:
        assert other != lines[: len(other)]
    else:
        assert found == news(events)[: len(found)]
        assert other == lines[: len(other)]


@given(EVENTS)
def test_any_story_has_a_report(events: list[Event]) -> None:
    """Whatever the order of events, a run has an outcome only where it ended, and it has every step that was begun.

    A second beginning, which no journal has, would start again.
    """
    content = written(events)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        path.write_bytes(content)
        state = fold(read_journal(path))
    first = max((index for index, event in enumerate(events) if isinstance(event, RunStarted)), default=0)
    story = events[first:]
    last = [event for event in story if isinstance(event, RunEnded | RunResumed | RollbackRequested)][-1:]
    assert state.outcome == (last[0].outcome if last and isinstance(last[0], RunEnded) else None)
    begun = [
        event.step
        for event in story
        if isinstance(event, StepStarted) or (isinstance(event, StepEnded) and event.outcome == "failed")
    ]
    assert [step.name for step in state.steps] == list(dict.fromkeys(begun))
