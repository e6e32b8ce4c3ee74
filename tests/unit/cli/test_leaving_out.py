"""A controller that is down, at the command line: what `run` does before the upgrade, and `resume` instead of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from upgrader.app.execution import FinishedRun
from upgrader.app.left_out import WantedUpgrade
from upgrader.cli.main import cli
from upgrader.engine.state.run_state import RunState
from upgrader.errors import Blocked, StepFailed
from upgrader.model.finding import Finding
from upgrader.model.skips import Skips
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import Pipeline

DOWN = "controller-3"
TO = KubernetesVersion(1, 37, 1)


class Commands:
    """The use cases behind the two commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found = True
        """Whether there is a controller to leave out, or to take back."""
        self.wanted = WantedUpgrade()
        """The upgrade for which one is left out."""
        self.findings: tuple[Finding, ...] = ()
        self.demands_rehearsal = False
        self.error: StepFailed | None = None
        self.done: list[str] = []

    def invoke(self, *arguments: str, answer: str = "") -> Result:
        """Run a command."""
        return CliRunner().invoke(cli, ["-C", str(self.folder), *arguments], input=answer)

    @contextmanager
    def leaving(self, folder: Path, wanted: WantedUpgrade, front_end: object, *, take_over: bool) -> Iterator[Any]:
        """As `propose_leaving_out`."""
        self.wanted = wanted
        with self.propose(folder, front_end, take_over=take_over) as proposed:
            yield proposed

    @contextmanager
    def propose(self, _folder: Path, _front_end: object, *, take_over: bool) -> Iterator[Any]:
        """As `propose_return`."""

        def execute() -> FinishedRun:
            self.done.append(f"changed, take over: {take_over}")
            return FinishedRun(RunState(outcome="failed" if self.error else "succeeded"), self.folder, self.error)

        def check_allowed() -> None:
            if self.findings:
                raise Blocked("a check blocks this")

        proposed = SimpleNamespace(
            host=SimpleNamespace(name=DOWN),
            ends_rehearsal=self.demands_rehearsal,
            pipeline=Pipeline(()),
            findings=self.findings,
            check_allowed=check_allowed,
            execute=execute,
        )
        yield proposed if self.found else None

    def upgrade(self, propose: Any, _operator: object, _most: object) -> None:
        """As `run_hops`."""
        with propose(None):
            pass

    @contextmanager
    def propose_upgrade(self, *_: object, take_over: bool, **_named: object) -> Iterator[None]:
        """As `propose_upgrade`."""
        self.done.append(f"upgrade, take over: {take_over}")
        yield

    def resume(self, *_: object, **_named: object) -> None:
        """As `resume_now`."""
        self.done.append("resumed")


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Both commands, with a controller that is down."""
    (tmp_path / "upgrader.yaml").write_text(f"kubernetesVersion: {TO}\n")
    made = Commands(tmp_path)
    monkeypatch.setattr("upgrader.app.left_out.propose_leaving_out", made.leaving)
    monkeypatch.setattr("upgrader.app.left_out.propose_return", made.propose)
    monkeypatch.setattr("upgrader.app.hops.run_hops", made.upgrade)
    monkeypatch.setattr("upgrader.app.upgrade.propose_upgrade", made.propose_upgrade)
    monkeypatch.setattr("upgrader.cli.resume.resume_now", made.resume)
    return made


def test_upgrade_follows_once_the_controller_is_left_out(commands: Commands) -> None:
    """It is asked for by itself; a dead run's lock is taken over once."""
    asked = commands.invoke("run", "--to", str(TO), "--take-over", answer="n\n")
    assert f"Leave {DOWN} out?" in asked.output and commands.done == []
    assert commands.invoke("run", "--to", str(TO), "--take-over", "--yes").exit_code == 0
    assert commands.done == ["changed, take over: True", "upgrade, take over: False"]


@pytest.mark.parametrize("demands", [True, False])
def test_rehearsal_that_is_needed_afterwards_is_announced(commands: Commands, demands: bool) -> None:
    """Before the question: the upgrade doesn't follow at once where upgrader.yaml demands one."""
    commands.demands_rehearsal = demands
    said = " ".join(commands.invoke("run", "--to", str(TO), answer="n\n").output.split())
    announced = f"requires a rehearsal without {DOWN}: once {DOWN} is left out, run `upgrader rehearse`"
    assert (announced in said) is demands


def test_controller_is_left_out_for_exactly_that_upgrade(commands: Commands) -> None:
    """What it is to be checked for is all that the run was given."""
    bundle = commands.folder / "bundle.tar"
    bundle.touch()
    given = ("--to", str(TO), "--max-hops", "2", "--bundle", str(bundle), "--skip", "memory", "--reason", "x", "--new")
    commands.invoke("run", *given, "--yes")
    assert commands.wanted == WantedUpgrade(TO, Skips(("memory",), "x"), 2, bundle, anew=True)


def test_controller_is_left_out_for_the_upgrade_that_a_campaign_approved(commands: Commands) -> None:
    """The plan with all controllers is compared before anything is changed, as the one without it is of other releases:
    a changed cluster keeps its controller, and the one whose plan was compared is upgraded.
    """
    options = ("run", "--to", str(TO), "--yes", "--approved-changes", "mine", "--campaign", "c")
    commands.invoke(*options)
    assert commands.done and commands.wanted.refuse is not None
    found = SimpleNamespace(document=SimpleNamespace(to_do=True), plan=SimpleNamespace(changes_digest="other"))
    runs: Any = SimpleNamespace(find_brief_runs=lambda: SimpleNamespace(runs=()))
    with pytest.raises(Blocked, match="would now make other changes; nothing was changed"):
        commands.wanted.refuse(cast(Any, found), runs)
    found.plan.changes_digest = "mine"
    commands.wanted.refuse(cast(Any, found), runs)
    found.plan.changes_digest = "of fewer replicas"
    commands.wanted.refuse(cast(Any, found), runs)


def test_no_upgrade_behind_a_controller_that_was_not_left_out(commands: Commands) -> None:
    """A check forbids it, or one of its steps fails."""
    commands.error = StepFailed("no")
    assert commands.invoke("run", "--to", str(TO), "--yes").exception is commands.error
    commands.findings = (Finding("access.missing", "error", "no right"),)
    assert isinstance(commands.invoke("run", "--to", str(TO), "--yes").exception, Blocked)
    assert commands.done == ["changed, take over: False"]


def test_saved_plan_is_of_the_controllers_that_took_part(commands: Commands) -> None:
    """Somebody approved exactly that plan: nothing is done before it."""
    plan = commands.folder / "plan.json"
    plan.write_text("{}")
    commands.invoke("run", "--plan", str(plan), "--yes")
    assert commands.done == ["upgrade, take over: False"]


def test_resume_takes_the_controller_back(commands: Commands) -> None:
    """Instead of an upgrade; not where a run is named, or nothing is left out."""
    assert commands.invoke("resume", "--yes").exit_code == 0
    assert commands.done == ["changed, take over: False"]
    commands.invoke("resume", "20260101T000000-v1.37.1", "--yes")
    commands.found = False
    commands.invoke("resume", "--yes")
    assert commands.done[1:] == ["resumed", "resumed"]
