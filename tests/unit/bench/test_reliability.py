"""What is taken for a promise kept, and how outcomes are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.reliability.page import as_json, merged, table, write_into
from testkit.faults.scenario import Moment, Outcome
from tests.unit.bench.tables import rows


def outcome(exit_code: int, turn: str, *, resumed: int | None = None, moment: str = Moment.HELM) -> Outcome:
    """A run from turn 1 to turn 2."""
    said = "Start\nError: the API server did not answer\n  Remedy: look"
    return Outcome("500", moment, exit_code, 31.4, said, turn, {0: "2", 4: "1", 3: "1"}, resumed)


@pytest.mark.parametrize(
    ("ended", "trouble"),
    [
        (outcome(0, "2"), ""),
        (outcome(4, "1"), ""),
        (outcome(5, "2", resumed=0), ""),
        (outcome(5, "1", resumed=4), ""),
        (outcome(0, "1"), "exit code 0, but the cluster has turn '1', not '2'"),
        (outcome(4, "2"), "exit code 4, but the cluster has turn '2', not '1'"),
        (outcome(5, "2", resumed=5), "resume ended with 5"),
        (outcome(1, "2"), "exit code 1"),
        (outcome(-1, "2"), "still at work"),
    ],
)
def test_an_exit_code_is_held_against_the_cluster(ended: Outcome, trouble: str) -> None:
    """A run keeps its promise when the cluster is as its exit code says, and no other way."""
    assert trouble in ended.trouble
    assert bool(trouble) == bool(ended.trouble)


def test_table_has_what_was_tried() -> None:
    """A row for each fault and a column for each moment that was tried; a broken promise is bold, with its reason."""
    runs = [as_json(outcome(4, "1")), as_json(outcome(0, "1", moment=Moment.GATES))]
    (found,) = rows(table(runs, tuple(Moment)))
    assert list(found) == ["fault", "Helm at work", "gates"]
    assert (found["fault"], found["Helm at work"]) == ("500", "rolled back (4), 31 s")
    assert found["gates"].startswith("**done (0)") and "has turn '1', not '2'" in found["gates"]


def test_each_table_has_its_own_runs() -> None:
    """Runs that met a fault in a step of an upgrade are no part of the table of moments, and the other way round."""
    runs = [as_json(outcome(4, "1")), as_json(outcome(0, "2", moment="kube-apiserver"))]
    found = rows(table(runs, ("pod-checkpointer", "kube-apiserver")))
    assert found == [{"fault": "500", "kube-apiserver": "done (0), 31 s"}]


def test_a_resumed_run_says_both() -> None:
    """What the run came to at first, and what it came to then."""
    figures = as_json(outcome(5, "2", resumed=0))
    (found,) = rows(table([figures], tuple(Moment)))
    assert found["Helm at work"].startswith("stopped (5), then done")
    assert (figures["exit_code"], figures["resumed"]) == (5, 0)
    assert figures["said"] == "the API server did not answer"


def test_parts_can_be_measured_again() -> None:
    """A cell that is measured anew replaces the old one, and the others stay."""
    old = [as_json(outcome(5, "1", resumed=5)), as_json(outcome(0, "2", moment=Moment.GATES))]
    new = [as_json(outcome(4, "1"))]
    assert merged(old, new) == [old[1], new[0]]


def test_page_keeps_its_words(tmp_path: Path) -> None:
    """Only what is between the marks is replaced, as often as it is measured."""
    page = tmp_path / "page.md"
    other = "<!-- outcomes of steps: made by `make reliability` -->\nother\n<!-- end of outcomes of steps -->\nafter\n"
    page.write_text(f"before\n<!-- outcomes: made by `make reliability` -->\nold\n<!-- end of outcomes -->\n{other}")
    for words in ("one", "two"):
        write_into(page, "outcomes", words)
    assert "old" not in page.read_text() and "one" not in page.read_text()
    assert page.read_text().startswith("before\n") and page.read_text().endswith(other)
