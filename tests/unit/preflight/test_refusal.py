"""The error of a run that checks forbid: what is left on the screen when their list has scrolled away."""

from __future__ import annotations

from dataclasses import replace

from upgrader.model.finding import Finding
from upgrader.preflight.refusal import refusal

BLOCKS = Finding("a.b", "error", "object a is broken", "because\nof this", "mend a")
WARNS = Finding("c.d", "warning", "never mind", "", "ignore it")


def test_it_names_what_blocks_with_cause_and_remedy() -> None:
    """Warnings and what is skipped block nothing; lines of a diagnosis are joined."""
    error = refusal("no run", [WARNS, replace(BLOCKS, id="e.f", skipped="known"), BLOCKS], "Then again.")
    assert error.message.splitlines() == ["no run", "a.b: object a is broken", "  because of this"]
    assert error.remedy == "mend a\nThen again."


def test_many_are_counted() -> None:
    """The first three fit on a screen, each shortened; the rest is in the list."""
    error = refusal(
        "no run", [replace(BLOCKS, id=f"a.{number}", diagnosis="x" * 1000) for number in range(5)], "Then again."
    )
    assert error.message.splitlines()[-1] == "…and 2 more, above"
    assert max(map(len, error.message.splitlines())) == 302


def test_without_a_remedy_the_list_has_to_do() -> None:
    """Something is always to be done."""
    assert refusal("no run", [Finding("a.b", "unknown", "t")], "Then again.").remedy == (
        "Fix the findings marked error or unknown. Then again."
    )


def test_one_of_each_kind_is_named() -> None:
    """What follows for each of many workloads doesn't hide the cause that comes after it."""
    cause = Finding("w.x", "error", "the webhook has no backend")
    error = refusal("no run", [*[replace(BLOCKS, title=f"workload {number}") for number in range(4)], cause], "Again.")
    assert error.message.splitlines() == [
        "no run",
        "a.b: workload 0",
        "  because of this",
        "w.x: the webhook has no backend",
        "…and 3 more, above",
    ]


def test_what_is_still_on_the_screen_is_not_told_twice() -> None:
    """The error has the ids alone where the list stands above it, each id once."""
    error = refusal("no run", [BLOCKS, WARNS, replace(BLOCKS, title="object b is broken")], "Then again.", seen=True)
    assert error.message.splitlines() == ["no run", "See above: a.b"]
    assert error.remedy == "Fix the findings marked error or unknown. Then again."
