"""Every report can be made of every journal: a run's end must not depend on what is in it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit import example_runs as runs
from testkit.example_runs import state_of
from upgrader.engine.journal.record import Record
from upgrader.engine.state.event_fold import fold
from upgrader.engine.state.report import render, report_json
from upgrader.engine.state.run_state import MAX_NOTES, RunState
from upgrader.model.event import Event, Note
from upgrader.model.version import KubernetesVersion
from upgrader.reporting.report.formats import FILES, report_text
from upgrader.reporting.report.redacted import redacted

REPOSITORY = Path(__file__).parents[4]

st.register_type_strategy(float, st.floats(allow_nan=False))
st.register_type_strategy(KubernetesVersion, st.builds(KubernetesVersion, *[st.integers(0, 2000)] * 3))
EVENTS = st.lists(st.one_of(*(st.from_type(kind) for kind in get_args(Event))), max_size=10)


@settings(max_examples=15, deadline=None)
@given(EVENTS, st.lists(st.integers(-(10**6), 10**6), min_size=10, max_size=10))
def test_any_events_at_any_times(events: list[Event], times: list[int]) -> None:
    """Events in any order, with any texts and numbers, by a clock that jumps: all forms are made, and are sound."""
    began = datetime(2026, 1, 1, tzinfo=UTC)
    records = (Record(n, began + timedelta(seconds=times[n]), event) for n, event in enumerate(events))
    state = fold(records)
    for found in (state, redacted(state, ("a",))):
        for form in FILES:
            report_text(found, form).encode()
        ElementTree.fromstring(report_text(found, "junit").encode())
        json.loads(report_text(found, "json"))


@pytest.mark.parametrize("story", [runs.GOOD, runs.ROLLED_BACK, runs.RECOVERED, runs.STUCK, runs.INTERRUPTED])
def test_every_beginning_has_every_report(story: runs.Story) -> None:
    """Wherever a run was killed, what is known of it is reported, and never as a success."""
    for length in range(0, len(story), 2):
        state = state_of(story[:length])
        for form in FILES:
            assert report_text(state, form)
        assert "Succeeded" not in report_text(state, "html")


def test_schema_is_current() -> None:
    """docs/reference/report.schema.json is what `make docs` makes from the code."""
    assert (REPOSITORY / "docs/reference/report.schema.json").read_text() == render()


@pytest.mark.parametrize(
    "story", [(), runs.GOOD, runs.ROLLED_BACK, runs.RECOVERED, runs.STUCK, runs.INTERRUPTED, runs.nodes_story(3)]
)
def test_reports_keep_to_the_schema(story: runs.Story) -> None:
    """Programs can rely on the published schema; no field is missing in it."""
    schema = json.loads(render())
    report = json.loads(json.dumps(report_json(state_of(story))))
    jsonschema.validate(report, schema)
    assert sorted(report) == sorted(schema["properties"])
    assert report["format_version"] == "1.0"


def test_report_has_the_timeline_and_the_evidence() -> None:
    """When each part began and ended, and what the gate saw that failed."""
    report = report_json(state_of(runs.ROLLED_BACK))
    spans = [(span["kind"], span["outcome"]) for span in report["timeline"] if span["step"] == "kube-apiserver"]
    assert spans == [
        ("apply", "applied"),
        ("gates", "failed"),
        ("gate", "passed"),
        ("gate", "broken"),
        ("gate", "unknown"),
        ("undo", "undone"),
        ("gate", "passed"),
    ]
    (gate,) = [gate for gate in report["steps"][1]["gates"] if gate["name"] == "nodes"]
    assert gate["outcome"] == "passed"


def test_notes_are_bounded_and_counted() -> None:
    """The newest are kept; how many are left out is said."""
    state = state_of([(float(n), Note(f"note {n}")) for n in range(MAX_NOTES + 7)])
    assert (len(state.notes), state.notes_left_out) == (MAX_NOTES, 7)
    assert state.notes[-1].text == f"note {MAX_NOTES + 6}"
    assert "7 earlier ones are only in the journal" in report_text(state, "html")


def test_empty_state_has_every_report() -> None:
    """A journal without a single record is a run of which nothing is known."""
    for form in FILES:
        assert report_text(RunState(), form)
