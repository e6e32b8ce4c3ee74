"""`upgrader check`: every finding, for people and for programs, and an exit code that says whether a run may start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from upgrader.app.upgrade import CheckedPlan
from upgrader.cli.main import cli
from upgrader.errors import Blocked, UsageError
from upgrader.model.finding import Finding
from upgrader.model.version import KubernetesVersion
from upgrader.steps.plan import Plan

ERROR = Finding("webhooks.no-backend", "error", "webhook x refuses pods", "why", "repair it")
WARNING = Finding("apis.unavailable", "warning", "APIService y is not Available")


def invoke(monkeypatch: pytest.MonkeyPatch, findings: tuple[Finding, ...], *arguments: str) -> tuple[str, bool]:
    """What is on standard output, and whether the command says that the run is blocked."""
    plan = Plan(KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1), ())
    monkeypatch.setattr(
        "upgrader.app.upgrade.check_upgrade",
        lambda _folder, _target, skips, *_: CheckedPlan(plan, skips.apply(findings)),
    )
    result = CliRunner().invoke(cli, ["-C", str(Path()), "check", *arguments])
    assert result.exception is None or isinstance(result.exception, Blocked), result
    return result.stdout, result.exception is not None


def test_findings_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst first, each with its id and remedy, and a last line with their numbers."""
    shown, blocked = invoke(monkeypatch, (WARNING, ERROR))
    assert blocked
    assert "v1.36.3 → v1.37.1" in shown
    assert shown.index("webhook x refuses pods  webhooks.no-backend") < shown.index("APIService y")
    assert "Remedy: repair it" in shown
    assert "1 error, 1 warning: they block the run" in shown
    assert "1 error, 2 warnings: they block the run" in invoke(monkeypatch, (WARNING, WARNING, ERROR))[0]


@pytest.mark.parametrize("findings", [(), (WARNING,)])
def test_nothing_that_blocks(monkeypatch: pytest.MonkeyPatch, findings: tuple[Finding, ...]) -> None:
    """Warnings don't block; the exit code is 0."""
    shown, blocked = invoke(monkeypatch, findings)
    assert "ready to run" in shown and not blocked


def test_skipped_findings_come_last_and_do_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """They stay visible, with the reason, also for programs."""
    skip = ("--skip", ERROR.id, "--reason", "known")
    shown, blocked = invoke(monkeypatch, (ERROR, WARNING), *skip)
    assert not blocked
    assert shown.index("APIService y") < shown.index("Skipped by the operator: known")
    assert "1 warning, 1 skipped: ready to run" in shown
    found = json.loads(invoke(monkeypatch, (ERROR,), *skip, "-o", "json")[0])
    assert (found["blocked"], found["findings"][0]["skipped"]) == (False, "known")


def test_needless_skip_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A skip that nobody needs any more would hide the next fault of its kind."""
    plan = Plan(KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1), ())
    monkeypatch.setattr("upgrader.app.upgrade.check_upgrade", lambda *_: CheckedPlan(plan, ()))
    result = CliRunner().invoke(cli, ["check", "--skip", ERROR.id, "--reason", "known"])
    assert "found nothing to skip" in result.stderr and result.exit_code == 0


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_findings_for_programs(monkeypatch: pytest.MonkeyPatch, form: str, read: object) -> None:
    """Both forms have the versions, whether the run is blocked, and every finding with all of its fields."""
    assert callable(read)
    shown, blocked = invoke(monkeypatch, (WARNING, ERROR), "-o", form)
    found = read(shown)
    assert blocked and found["blocked"] is True
    assert (found["current"], found["target"]) == ("v1.36.3", "v1.37.1")
    assert [item["id"] for item in found["findings"]] == ["apis.unavailable", "webhooks.no-backend"]
    assert found["findings"][1]["remedy"] == "repair it"


def test_binaries_are_tried_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only then, and never offline."""
    plan = Plan(KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1), ())
    refused = Finding("trial.refused", "error", "kube-apiserver rejects its flags or files")
    monkeypatch.setattr("upgrader.app.trial_check.check_and_try", lambda *_: CheckedPlan(plan, (refused,)))
    result = CliRunner().invoke(cli, ["check", "--trial"])
    assert "trial.refused" in result.stdout and isinstance(result.exception, Blocked)
    result = CliRunner().invoke(cli, ["check", "--trial", "--offline"])
    assert isinstance(result.exception, UsageError)
