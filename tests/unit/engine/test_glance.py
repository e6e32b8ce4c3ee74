"""What is seen of a journal without its events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testkit import example_runs as runs
from testkit.example_runs import Story, journal_of, nodes_story
from upgrader.engine.journal.glance import JOURNAL, glance, outcome
from upgrader.engine.journal.journal_file import each_record
from upgrader.engine.state.event_fold import fold

OF_SCHEMA_2 = Path(__file__).with_name("journal-of-schema-2.jsonl")
STORIES = {
    "good": runs.GOOD,
    "rolled back": runs.ROLLED_BACK,
    "recovered": runs.RECOVERED,
    "interrupted": runs.INTERRUPTED,
    "stuck": runs.STUCK,
    "hostile": runs.HOSTILE,
    "nodes": nodes_story(4, fails=2),
}


def as_folded(journal: Path) -> None:
    """The same as the state of the run."""
    state, seen = fold(each_record(journal)), glance(journal)
    assert (seen.upgrade, seen.planned) == (state.is_upgrade, state.planned)
    assert seen.begun == tuple((step.name, step.summary) for step in state.steps)
    assert outcome(journal) == state.result


@pytest.mark.parametrize("name", STORIES)
def test_a_glance_sees_what_the_state_has(name: str, tmp_path: Path) -> None:
    """At each moment of a run: its steps, those that were begun, and how it ended."""
    story: Story = STORIES[name]
    journal = journal_of(story, tmp_path) / JOURNAL
    *lines, _ = journal.read_bytes().split(b"\n")
    for number in range(1, len(lines) + 1):
        journal.write_bytes(b"\n".join(lines[:number]) + b'\n{"schema":3,"se')  # a crash tears the last line
        as_folded(journal)


def test_journals_of_earlier_versions_are_seen_as_they_are_read(tmp_path: Path) -> None:
    """Events, kinds of runs and steps had other names."""
    journal = tmp_path / JOURNAL
    *lines, _ = OF_SCHEMA_2.read_bytes().split(b"\n")
    for number in range(1, len(lines) + 1):
        journal.write_bytes(b"\n".join(lines[:number]) + b"\n")
        as_folded(journal)


def test_the_end_of_a_long_journal_is_enough(tmp_path: Path) -> None:
    """How a run of hundreds of nodes ended is seen whatever stands before its end."""
    journal = journal_of(nodes_story(120), tmp_path) / JOURNAL
    whole = journal.read_bytes()
    assert len(whole) > 100_000
    journal.write_bytes(b"x" * 1000 + whole[1000:])
    assert outcome(journal) == "succeeded"


@pytest.mark.parametrize("content", ["", "garbage\n", "[]\n", json.dumps({"type": "RunStarted"}) + "\n", "{\n"])
def test_what_is_no_journal_is_no_run(content: str, tmp_path: Path) -> None:
    """It has no steps to offer."""
    (tmp_path / JOURNAL).write_text(content)
    with pytest.raises(ValueError, match=r"journal|JSON"):
        glance(tmp_path / JOURNAL)
