"""Measures how long a report takes, by the size of the journal: 200 nodes, one step each (`make bench-report`)."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from testkit.example_runs import Story, nodes_story
from upgrader.engine.journal.journal_file import parse_journal
from upgrader.engine.journal.record import encode
from upgrader.engine.state.event_fold import fold
from upgrader.model.event import Event, GateChecked, Note, StepApplied
from upgrader.model.outcome import pending
from upgrader.reporting.report.formats import FILES, report_text

__all__ = ["lines_of", "measured", "talkative"]

_NODES = 200
_CHECKS = {"as it is written": 0, "4 MiB, which notes and gate checks fill at most": 13, "50 MB": 190}
"""How many checks of each node's gate, with their evidence, are in the journal."""


def talkative(checks: int, nodes: int = _NODES) -> Story:
    """The upgrade of that many nodes, each of whose gates answers something new that often."""
    story: list[tuple[float, Event]] = []
    for at, event in nodes_story(nodes, fails=5):
        story.append((at, event))
        if isinstance(event, StepApplied):
            for number in range(checks):
                why = pending(f"check {number}: {event.step} is not back", "x" * 400, "y" * 400)
                story.append((at, GateChecked(event.step, "node-return", why, 0, 3, 1.0)))
                if number % 3 == 0:
                    story.append((at, Note(f"{event.step}, {number}: {'z' * 300}")))
    return story


def lines_of(story: Story) -> bytes:
    """The bytes of its journal, without the limit that a run keeps."""
    began, lines, checksum = datetime(2026, 1, 1, tzinfo=UTC), [], ""
    for number, (at, event) in enumerate(story):
        line, checksum = encode(number, began + timedelta(seconds=at), event, checksum)
        lines.append(line)
    return b"".join(lines)


def main() -> None:
    """Print a line for each size: reading, folding, and making all four forms (CPU seconds)."""
    print(f"{'journal':50} {'MB':>6} {'read':>6} {'fold':>6} {'render':>6}")
    for name, checks in _CHECKS.items():
        print(f"{name:50} {' '.join(f'{value:6.2f}' for value in measured(lines_of(talkative(checks))))}")


def measured(content: bytes) -> tuple[float, float, float, float]:
    """The journal's megabytes, and the CPU seconds of reading it, of folding it, and of making all reports."""
    times = [time.process_time()]
    records = parse_journal(content, "the journal")
    times.append(time.process_time())
    state = fold(records)
    times.append(time.process_time())
    for form in FILES:
        report_text(state, form)
    times.append(time.process_time())
    reading, folding, rendering = (after - before for before, after in pairwise(times))
    return len(content) / 1e6, reading, folding, rendering


if __name__ == "__main__":
    main()
