"""`upgrader run --plan`: what the saved plan says, and what the command line may not say besides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from upgrader.cli import run
from upgrader.cli.main import cli
from upgrader.errors import Inhibited, UsageError
from upgrader.model.json_values import to_json
from upgrader.model.saved_plan import PlanBinding, SavedPlan
from upgrader.model.version import KubernetesVersion

FROM, TO = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
SAVED = SavedPlan(
    "1.0", "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00", PlanBinding("0", "u", FROM, TO, (), (), ())
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """The target and the saved plan that each run was proposed with; all are refused."""
    seen: list[tuple[Any, Any]] = []

    @contextmanager
    def propose(_folder: Path, target: Any, _front_end: Any, *, saved: Any, **_named: Any) -> Iterator[None]:
        seen.append((target, saved))
        if seen:
            raise Inhibited("not today")
        yield

    monkeypatch.setattr(run, "propose_upgrade", propose)
    return seen


def invoke(path: Path, *arguments: str) -> Result:
    """`upgrader run` with a saved plan."""
    path.write_text(json.dumps(to_json(SAVED)))
    return CliRunner().invoke(cli, ["run", "--plan", str(path), *arguments])


@pytest.mark.parametrize("arguments", [(), ("--to", str(TO))])
def test_target_is_the_plans(tmp_path: Path, asked: list[tuple[Any, Any]], arguments: tuple[str, ...]) -> None:
    """Whatever upgrader.yaml says; to repeat it is no mistake."""
    assert isinstance(invoke(tmp_path / "p.json", *arguments).exception, Inhibited)
    assert asked == [(TO, SAVED)]


def test_another_target_is_wrong_usage(tmp_path: Path, asked: list[tuple[Any, Any]]) -> None:
    """Nobody can tell which of the two was meant; the cluster isn't even asked."""
    ended = invoke(tmp_path / "p.json", "--to", str(FROM))
    assert isinstance(ended.exception, UsageError) and not asked
    assert "v1.36.3" in ended.exception.message and "v1.37.1" in ended.exception.message


def test_run_without_a_plan(asked: list[tuple[Any, Any]]) -> None:
    """It is bound to nothing."""
    CliRunner().invoke(cli, ["run", "--to", str(TO)])
    assert asked == [(TO, None)]
