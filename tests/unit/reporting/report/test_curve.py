"""Availability and latency over time in the reports: what is drawn, what is said instead, and what is never guessed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit import example_runs as runs
from testkit.example_runs import nodes_story, series_of, state_of
from tests.unit.reporting.report.test_html import Page
from upgrader.engine.state.report import render, report_json
from upgrader.gates.availability.series_file import SERIES
from upgrader.model.availability_series import NO_SERIES, AvailabilitySeries, Kind, Sample
from upgrader.reporting.report.bars import scale_of
from upgrader.reporting.report.curve import Curve, curve_of
from upgrader.reporting.report.formats import FILES, report_text, write_reports
from upgrader.reporting.report.html import report_html
from upgrader.reporting.report.redacted import redacted

OUTAGE = series_of(runs.RECOVERED, failing=(28, 77))


def drawn(story: runs.Story, series: AvailabilitySeries) -> Curve:
    """The curves of a story."""
    state = state_of(story)
    found = curve_of(state, series, scale_of(state))
    assert found is not None
    return found


def test_an_outage_is_where_it_was() -> None:
    """Red over its time, no latency in it, and a row of the table: when, how long, in which step, how many of which."""
    curve = drawn(runs.RECOVERED, OUTAGE)
    assert curve.failed[0].x == pytest.approx(28 / 90 * 100, abs=0.1)
    assert curve.failed[-1].x + curve.failed[-1].width == pytest.approx(77 / 90 * 100, abs=0.1)
    assert {part.y for part in curve.failed} == {0.0}, "all requests failed: the full height"
    assert curve.median.count("M") == curve.slowest.count("M") == 2, "nothing is drawn across it"
    (row,) = curve.disturbances
    assert (f"{row.began:%H:%M:%S}", row.took, row.failed, row.requests) == ("00:00:28", "49 s", 490, 490)
    assert (row.during, row.what) == ("kube-apiserver: gates", "196 get, 147 list, 147 write")
    assert curve.sentence.startswith("490 requests failed, in 49 s of the 1 min 31 s that were measured. The slowest")


def test_one_failure_of_many_is_seen() -> None:
    """One request of a thousand that failed is a mark that can be seen, in its place, and a row."""
    samples = list(series_of(runs.GOOD).samples)
    samples[40] = replace(samples[40], begun=1000, ok=999, failed=1, kinds={"write": Kind(999, 1, 5.0)})
    curve = drawn(runs.GOOD, AvailabilitySeries(tuple(samples)))
    (mark,) = curve.failed
    assert mark.y == 92.0 and mark.width > 0.3
    assert mark.title == "00:00:40: 1 of 1,000 requests failed"
    assert [row.what for row in curve.disturbances] == ["1 write"]


def test_what_was_not_measured_is_called_so() -> None:
    """The pause of a run that was resumed: no line through it, no good colour on it, and a row that says so."""
    curve = drawn(runs.INTERRUPTED, series_of(runs.INTERRUPTED))
    assert len(curve.measured) == 2 and curve.median.count("M") == 2
    gap = curve.measured[1].x - curve.measured[0].x - curve.measured[0].width
    assert gap > 1
    assert "nothing was measured" in {row.what for row in curve.disturbances}


def test_a_killed_prober_is_not_a_good_record() -> None:
    """Samples end in the middle of a run that went on: the rest is not measured."""
    curve = drawn(runs.GOOD, series_of(runs.GOOD, until=30))
    assert [(row.took, row.what) for row in curve.disturbances] == [("42 s", "nothing was measured")]
    assert curve.measured[0].x + curve.measured[0].width < 50


def test_a_run_that_ends_well_has_no_false_gaps() -> None:
    """What is recorded after the prober was stopped, or before its first request, is no gap."""
    curve = drawn(runs.GOOD, series_of(runs.GOOD))
    assert curve.disturbances == ()
    assert curve.sentence.startswith("No request failed in 1 min 14 s of measuring. The slowest answer took ")


def test_steps_and_gates_are_the_bands_behind_it() -> None:
    """Each change, its gates and its rollback are behind the curve where the timeline has them."""
    state = state_of(runs.ROLLED_BACK)
    curve = drawn(runs.ROLLED_BACK, series_of(runs.ROLLED_BACK))
    titles = [band.title for band in curve.bands]
    assert "kube-apiserver: change" in titles and "kube-apiserver: gates" in titles
    assert titles[-1] == "kube-apiserver: rollback"
    undo = next(span for span in state.spans if span.kind == "undo")
    assert curve.bands[-1].x == scale_of(state).x(undo.began)


def test_a_long_run_is_drawn_in_few_parts() -> None:
    """Two hundred nodes in four hours: a page that a browser draws at once, with every failure in it."""
    story = nodes_story(200, fails=3)
    series = series_of(story, failing=(5000, 5003))
    curve = drawn(story, series)
    assert len(curve.median) < 40_000
    assert curve.failed and [row.failed for row in curve.disturbances] == [30]
    assert curve.disturbances[0].during.startswith("nodes-workers-0")


def test_the_table_keeps_the_longest() -> None:
    """An API that fails every few seconds: forty rows, the longest among them, and how many there are besides."""
    samples = [
        replace(each, failed=1, ok=9) if place % 6 == 0 or 300 < place < 320 else each
        for place, each in enumerate(series_of(nodes_story(10)).samples)
    ]
    curve = drawn(nodes_story(10), AvailabilitySeries(tuple(samples)))
    assert len(curve.disturbances) == 40 and curve.left_out > 20
    assert max(row.seconds for row in curve.disturbances) >= 19
    assert [row.began for row in curve.disturbances] == sorted(row.began for row in curve.disturbances)


def test_page_has_the_curves_and_their_words() -> None:
    """Both are pictures with a text of their own; the table says the rest; the page still loads and runs nothing."""
    html = report_html(state_of(runs.RECOVERED), series=OUTAGE)
    found = Page(html)
    pictures = [attributes for tag, attributes in found.elements if tag == "svg" and attributes.get("role") == "img"]
    assert len(pictures) == 2
    assert all("490 requests failed" in str(picture["aria-label"]) for picture in pictures)
    assert "When requests failed, and when nothing was measured" in html
    assert not re.search(r"<[^>]+\sstyle=|<script|<img", html)
    assert "There are no curves" not in found.text


@pytest.mark.parametrize(
    ("series", "why"),
    [
        (AvailabilitySeries(problem=f"the run's folder has no {SERIES}"), f"the run's folder has no {SERIES}."),
        (NO_SERIES, "there are no samples from the time of this run."),
        (
            AvailabilitySeries(tuple(replace(each, time=each.time + timedelta(days=9)) for each in OUTAGE.samples)),
            "there are no samples from the time of this run.",
        ),
    ],
)
def test_a_page_without_curves_says_why(series: AvailabilitySeries, why: str) -> None:
    """A run of an older version, or samples of another time: no empty picture that looks like a good one."""
    text = Page(report_html(state_of(runs.GOOD), series=series)).text
    assert f"There are no curves over time: {why}" in text


def test_a_killed_run_has_its_curves() -> None:
    """Its process recorded no counts; its samples show what clients saw until then."""
    text = Page(report_html(state_of(runs.INTERRUPTED), series=series_of(runs.INTERRUPTED))).text
    assert "The counts by step are not known" in text and "nothing was measured" in text


def test_reports_read_the_file_beside_the_journal(tmp_path: Path) -> None:
    """The files of a run have its curves and sums; with a damaged file they are made all the same."""
    state = state_of(runs.RECOVERED)
    lines = "".join(json.dumps(each.as_json()) + "\n" for each in OUTAGE.samples)
    (tmp_path / SERIES).write_text(lines + '{"torn')
    write_reports(tmp_path, state, journal="journal.jsonl")
    found = json.loads((tmp_path / FILES["json"]).read_text())
    jsonschema.validate(found, json.loads(render()))
    assert found["availability_series"] == {
        "began": "2026-01-01T00:00:00.000Z",
        "ended": "2026-01-01T00:01:31.000Z",
        "measured_seconds": 91.0,
        "seconds_with_failures": 49.0,
        "requests": 910,
        "failed": 490,
        "unanswered": 0,
        "slowest_ms": 87.0,
        "unreadable_lines": 1,
    }
    assert "samples" not in found
    assert "490 requests failed" in (tmp_path / FILES["html"]).read_text()
    (tmp_path / SERIES).write_bytes(b"\x00" * 1000)
    write_reports(tmp_path, state, journal="journal.jsonl")
    assert "has no sample" in (tmp_path / FILES["html"]).read_text()
    assert report_json(state)["availability_series"] == {}


TIMES = st.floats(-50, 40_000).map(lambda at: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=at))
COUNTS = st.integers(0, 10**9)
NUMBERS = st.floats(0, 1e9)
SAMPLES = st.builds(
    Sample, TIMES, st.floats(0.001, 3600), COUNTS, COUNTS, COUNTS, NUMBERS, NUMBERS, NUMBERS,
    st.dictionaries(st.text(max_size=5), st.builds(Kind, COUNTS, COUNTS, NUMBERS), max_size=2),
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.lists(SAMPLES, max_size=12), st.sampled_from([(), runs.GOOD, runs.INTERRUPTED, runs.HOSTILE]))
def test_any_samples_have_a_page(samples: list[Sample], story: runs.Story) -> None:
    """Whatever is in the file, the reports are made, and nothing is drawn outside of its row."""
    series = AvailabilitySeries(tuple(sorted(samples, key=lambda each: each.time)))
    state = redacted(state_of(story), ("a",))
    for form in FILES:
        report_text(state, form, series=series).encode()
    curve = curve_of(state, series, scale_of(state))
    if curve is not None:
        for numbers in re.findall(r"([\d.-]+),([\d.-]+)", curve.median + curve.slowest):
            assert 0 <= float(numbers[0]) <= 1000 and 0 <= float(numbers[1]) <= 100
        assert all(0 <= part.y <= 100 and 0 <= part.x <= 100 for part in curve.failed)
