"""`upgrader plan --detailed-exitcode`: whether there is anything to do, for scripts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from upgrader.app.upgrade import CheckedPlan
from upgrader.cli import plan
from upgrader.cli.main import cli
from upgrader.errors import Inhibited, UsageError
from upgrader.model.finding import Finding
from upgrader.model.plan import Action, Plan, PlannedRelease
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion

BLOCKS = (Finding("nodes.not-ready", "error", "controller-1 is not Ready"),)


def invoke(
    monkeypatch: pytest.MonkeyPatch,
    actions: tuple[Action, ...],
    *arguments: str,
    findings: tuple[Finding, ...] = (),
) -> Result:
    """A plan whose releases have these actions."""
    spec = ReleaseSpec("web", "shop", Path("/c"))
    steps = tuple(PlannedRelease(spec, action, "", "", "", ()) for action in actions)
    made = Plan(KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1), steps)
    monkeypatch.setattr(plan, "plan_upgrade", lambda _folder, _target: CheckedPlan(made, findings))
    return CliRunner().invoke(cli, ["plan", *arguments])


@pytest.mark.parametrize(("actions", "code"), [(("unchanged", "unchanged"), 0), (("unchanged", "upgrade"), 7), ((), 0)])
def test_exit_code_says_whether_there_is_anything_to_do(
    monkeypatch: pytest.MonkeyPatch, actions: tuple[Action, ...], code: int
) -> None:
    """7 for changes, as 2 is wrong usage; without the option a plan that was made is 0."""
    assert invoke(monkeypatch, actions, "--detailed-exitcode").exit_code == code
    assert invoke(monkeypatch, actions).exit_code == 0


def test_check_that_blocks_comes_before_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody starts a run because of a 7 that would be refused."""
    ended = invoke(monkeypatch, ("upgrade",), "--detailed-exitcode", findings=BLOCKS)
    assert isinstance(ended.exception, Inhibited)


def test_folder_alone_can_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline, what the cluster has is unknown."""
    assert isinstance(invoke(monkeypatch, (), "--offline", "--detailed-exitcode").exception, UsageError)
