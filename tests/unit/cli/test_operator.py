"""What whoever starts an upgrade is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from upgrader.app.upgrade import CheckedPlan
from upgrader.cli import operator
from upgrader.cli.operator import Operator
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
