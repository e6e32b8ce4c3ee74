"""Two runs side by side."""

from __future__ import annotations

from testkit import example_runs as runs
from testkit.example_runs import state_of
from upgrader.reporting.report.comparison import compared, comparison_markdown, difference_text


def test_steps_are_side_by_side() -> None:
    """Every step of either run, its time in both, and the difference; what did not run has none."""
    found = compared(state_of(runs.GOOD), state_of(runs.ROLLED_BACK))
    rows = {row.name: row for row in found.rows}
    assert rows["images"].difference == 0.0
    assert difference_text(rows["kube-apiserver"]) == "-14 s"
    assert rows["kubernetes"].seconds == (20.0, None) and difference_text(rows["kubernetes"]) == ""
    assert rows["whole run"].outcomes == ("succeeded", "rolled-back")
    assert found.failed == ("0 of 4,410", "0 of 2,160")


def test_steps_of_the_second_run_alone() -> None:
    """A step that the first run did not have is not lost, and says so."""
    found = compared(state_of(runs.nodes_story(1)), state_of(runs.INTERRUPTED))
    rows = {row.name: row for row in found.rows}
    assert rows["images"].outcomes == ("no such step", "passed")
    assert found.failed[1] == "not known", "what was not measured is not zero"


def test_markdown_has_the_same() -> None:
    """For a merge request; names are code."""
    text = comparison_markdown(compared(state_of(runs.GOOD), state_of(runs.ROLLED_BACK)))
    assert "| `kube-apiserver` | 33 s | 20 s | -14 s | passed → failed, rolled back |" in text
