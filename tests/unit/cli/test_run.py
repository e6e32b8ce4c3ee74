"""`upgrader run`: what is handed on to the run, and what is said at its end."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import click
import pytest
from click.testing import CliRunner

from testkit.terminal import Terminal
from upgrader.app.execution import FinishedRun
from upgrader.cli.main import cli
from upgrader.cli.operator import Operator
from upgrader.cli.questions import agrees
from upgrader.engine.state.run_state import RunState
from upgrader.errors import Blocked, UsageError
from upgrader.model.version import KubernetesVersion

TO = KubernetesVersion(1, 37, 1)


@pytest.mark.parametrize("with_plan", [True, False])
def test_saved_plan_is_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_plan: bool) -> None:
    """With and without `--plan`: the run is bound to that file, or to nothing."""
    seen: list[tuple[Any, Any]] = []
    file = tmp_path / "plan.json"
    file.write_text("{}")

    @contextmanager
    def propose(_folder: Path, target: Any, _front_end: Any, *, saved_in: Any, **named: Any) -> Iterator[None]:
        assert named["anew"] is False
        seen.append((target, saved_in))
        if seen:
            raise Blocked("not today")
        yield

    monkeypatch.setattr("upgrader.app.upgrade.propose_upgrade", propose)
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    saved = ["--plan", str(file)] if with_plan else []
    CliRunner().invoke(cli, ["-C", str(tmp_path), "run", "--to", str(TO), *saved])
    assert seen == [(TO, file if with_plan else None)]


@pytest.mark.parametrize(("written", "told"), [("v1.36.3", True), ("v1.37.1", False), ("nonsense", False)])
def test_older_version_in_the_file_is_mentioned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, told: bool
) -> None:
    """Whoever ran with --to is told which line to change, before the next plan refuses it as a downgrade."""
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")

    def hops(_propose: object, operator: Operator, _most: object) -> None:
        (tmp_path / "upgrader.yaml").write_text(f"kubernetesVersion: {written}\n")  # somebody edits it meanwhile
        operator.ended(FinishedRun(RunState(target=TO, outcome="succeeded"), tmp_path))

    monkeypatch.setattr("upgrader.app.hops.run_hops", hops)
    result = CliRunner().invoke(cli, ["-C", str(tmp_path), "run", "--to", str(TO)], catch_exceptions=False)
    said = " ".join(result.stderr.split())
    assert ("upgrader.yaml still has kubernetesVersion v1.36.3. Set it to v1.37.1" in said) is told


@pytest.mark.parametrize(
    ("options", "agreed", "written"),
    [((), True, '"v1.37.1"'), ((), False, "v1.36.3"), (("--yes",), True, "v1.36.3")],
)
def test_the_version_that_was_reached_is_written_if_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], agreed: bool, written: str
) -> None:
    """It is offered; the rest of the file stays, and with --yes nobody is asked and nothing is written."""
    (tmp_path / "upgrader.yaml").write_text("# ours\nkubernetesVersion: v1.36.3 # for now\n")

    def hops(_propose: object, operator: Operator, _most: object) -> None:
        operator.ended(FinishedRun(RunState(target=TO, outcome="succeeded"), tmp_path))

    monkeypatch.setattr("upgrader.app.hops.run_hops", hops)
    monkeypatch.setattr("upgrader.cli.run.agrees", lambda _: agreed)
    CliRunner().invoke(cli, ["-C", str(tmp_path), "run", "--to", str(TO), *options], catch_exceptions=False)
    assert (tmp_path / "upgrader.yaml").read_text() == f"# ours\nkubernetesVersion: {written} # for now\n"


def test_a_version_that_can_not_be_written_fails_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The upgrade has succeeded: why the file stays is said, and the exit code is 0."""
    (tmp_path / "upgrader.yaml").write_text("{kubernetesVersion: v1.36.3}\n")

    def hops(_propose: object, operator: Operator, _most: object) -> None:
        operator.ended(FinishedRun(RunState(target=TO, outcome="succeeded"), tmp_path))

    monkeypatch.setattr("upgrader.app.hops.run_hops", hops)
    monkeypatch.setattr("upgrader.cli.run.agrees", lambda _: True)
    monkeypatch.setattr("upgrader.app.wanted_version.write_wanted", Mock(side_effect=OSError("Device busy")))
    ended = CliRunner().invoke(cli, ["-C", str(tmp_path), "run", "--to", str(TO)], catch_exceptions=False)
    assert ended.exit_code == 0
    assert "upgrader.yaml was not changed: Device busy" in ended.stderr


def test_progress_is_erased_before_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the command meets before it begins stands in a line of its own."""
    said: list[str] = []
    monkeypatch.setattr("upgrader.cli.ui.progress_line.ProgressLine", lambda _: said.append)
    (tmp_path / "plan.json").write_text("no JSON")
    ended = CliRunner().invoke(cli, ["-C", str(tmp_path), "run", "--plan", str(tmp_path / "plan.json"), "--yes"])
    assert isinstance(ended.exception, UsageError), ended
    assert said and said[-1] == ""


def test_an_offer_needs_somebody_who_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal, as in a job, nothing is asked; and Ctrl-C means no, as the run has ended already."""
    monkeypatch.setattr(click, "confirm", lambda *_, **__: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert not agrees("Write it?")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert agrees("Write it?")
    monkeypatch.setattr(click, "confirm", Mock(side_effect=click.Abort))
    assert not agrees("Write it?")


def test_new_run_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--new` reaches the use case, and contradicts `--resume`."""
    seen: list[bool] = []

    @contextmanager
    def propose(*_: Any, anew: bool, **_named: Any) -> Iterator[None]:
        seen.append(anew)
        if seen:
            raise Blocked("not today")
        yield

    monkeypatch.setattr("upgrader.app.upgrade.propose_upgrade", propose)
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    CliRunner().invoke(cli, ["-C", str(tmp_path), "run", "--to", str(TO), "--new"])
    assert seen == [True]
    assert "Use only one of them" in CliRunner().invoke(cli, ["run", "--new", "--resume"]).exception.remedy  # type: ignore[union-attr]
