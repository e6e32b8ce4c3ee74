"""What whoever starts an upgrade is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from testkit.terminal import Terminal
from upgrader.app.upgrade import CheckedPlan
from upgrader.cli import operator
from upgrader.cli.operator import Operator
from upgrader.errors import Blocked
from upgrader.model.finding import Finding
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.steps.plan import Plan
from upgrader.steps.release.plan import PlannedRelease


@pytest.mark.parametrize(
    ("action", "question"), [("upgrade", "Start?"), ("unchanged", "Nothing would change. Only check all gates?")]
)
def test_question_says_whether_anything_would_change(
    monkeypatch: pytest.MonkeyPatch, action: Literal["upgrade", "unchanged"], question: str
) -> None:
    """A run at the version that is there already only checks its gates, and is not asked for as an upgrade is."""
    asked: list[str] = []
    monkeypatch.setattr(operator, "confirm", lambda text, *, yes: asked.append(f"{text} {yes}"))
    step = PlannedRelease(ReleaseSpec("web", "shop", Path("/c")), action, "", "", "", ())
    checked = CheckedPlan(Plan(KubernetesVersion(1, 37, 1), KubernetesVersion(1, 37, 1), (step,)), ())
    Operator(yes=False).approve(checked, foreseen=False)
    assert asked == [f"{question} False"]


@pytest.mark.parametrize("number", [1, 20])
def test_what_blocks_is_told_once_where_it_stays_on_the_screen(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """A short list isn't repeated by the error; one that has scrolled out is."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    found = tuple(Finding(f"a.{each}", "error", "object is broken", "because of this") for each in range(number))
    checked = CheckedPlan(Plan(KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1), ()), found)
    with pytest.raises(Blocked) as caught:
        Operator(yes=True).approve(checked, foreseen=False)
    assert "a.0" in caught.value.message
    assert ("because of this" in caught.value.message) is (number > 1)


def test_what_blocks_is_told_to_a_stream_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error that ends it is all that its reader has, whatever is on the terminal beside it."""
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr("upgrader.cli.events_option.event_stream", object)
    found = (Finding("a.b", "error", "object is broken", "because of this"),)
    checked = CheckedPlan(Plan(KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1), ()), found)
    with pytest.raises(Blocked, match="because of this"):
        Operator(yes=True).approve(checked, foreseen=False)
