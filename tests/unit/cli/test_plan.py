"""`upgrader plan`: its forms, and its exit codes for scripts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from upgrader.app.forecast import Forecast
from upgrader.app.upgrade import CheckedPlan
from upgrader.cli.main import cli
from upgrader.cli.ui.plan_json import render
from upgrader.errors import Blocked, UsageError
from upgrader.model.finding import Finding
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.steps.plan import Plan
from upgrader.steps.release.plan import Action, PlannedRelease

REPOSITORY = Path(__file__).parents[3]
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
    monkeypatch.setattr("upgrader.app.upgrade.plan_upgrade", lambda *_: CheckedPlan(made, findings))
    return CliRunner().invoke(cli, ["plan", *arguments])


@pytest.mark.parametrize(("actions", "code"), [(("unchanged", "unchanged"), 0), (("unchanged", "upgrade"), 7), ((), 0)])
def test_exit_code_says_whether_there_is_anything_to_do(
    monkeypatch: pytest.MonkeyPatch, actions: tuple[Action, ...], code: int
) -> None:
    """7 for changes, as 2 is wrong usage; without the option a plan that was made is 0."""
    assert invoke(monkeypatch, actions, "--detailed-exitcode").exit_code == code
    assert invoke(monkeypatch, actions).exit_code == 0


def test_a_later_hop_is_something_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run would go on to it."""
    later = PlannedRelease(ReleaseSpec("web", "shop", Path("/c")), "upgrade", "", "", "", ())
    now = Plan(KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1), (replace(later, action="unchanged"),))
    ahead = (Forecast(Plan(now.target, KubernetesVersion(1, 38, 0), (later,)), ()),)
    monkeypatch.setattr("upgrader.app.upgrade.plan_upgrade", lambda *_: CheckedPlan(now, (), ahead=ahead))
    assert CliRunner().invoke(cli, ["plan", "--detailed-exitcode"]).exit_code == 7


def test_check_that_blocks_comes_before_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody starts a run because of a 7 that would be refused."""
    ended = invoke(monkeypatch, ("upgrade",), "--detailed-exitcode", findings=BLOCKS)
    assert isinstance(ended.exception, Blocked)


def test_folder_alone_can_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline, what the cluster has is unknown; and a saved plan is bound to the cluster."""
    assert isinstance(invoke(monkeypatch, (), "--offline", "--detailed-exitcode").exception, UsageError)
    assert isinstance(invoke(monkeypatch, (), "--offline", "--out", "plan.json").exception, UsageError)


def test_plan_is_saved_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And shown as ever, with the same exit codes."""
    asked: list[Path] = []

    def save(_folder: Path, _target: KubernetesVersion | None, path: Path, _: object) -> CheckedPlan:
        asked.append(path)
        release = PlannedRelease(ReleaseSpec("web", "shop", Path("/c")), "upgrade", "", "", "", ())
        return CheckedPlan(Plan(KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1), (release,)), ())

    monkeypatch.setattr("upgrader.app.upgrade.save_plan", save)
    ended = invoke(monkeypatch, ("upgrade",), "--out", str(tmp_path / "p.json"), "--detailed-exitcode")
    assert (ended.exit_code, asked) == (7, [tmp_path / "p.json"])
    assert "v1.36.3 → v1.37.1" in ended.stdout


def test_json_keeps_to_its_published_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """The published JSON Schema is current, and the JSON of a real plan fits it, but not every JSON does."""
    published = (REPOSITORY / "docs/reference/plan.schema.json").read_text()
    assert published == render(), "run `make docs`"
    schema = json.loads(published)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    ended = invoke(monkeypatch, ("upgrade", "unchanged"), "-o", "json", findings=BLOCKS)
    found = json.loads(ended.stdout)
    assert [error.message for error in validator.iter_errors(found)] == []
    assert (found["format_version"], found["blocked"]) == ("1.6", True)
    found["steps"][0]["action"] = "delete"
    assert not validator.is_valid(found), "a schema that anything fits would prove nothing"


def test_plan_is_what_the_command_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is on standard output in every form, and can be written to a file or a merge request."""
    assert "Kubernetes v1.36.3 → v1.37.1" in invoke(monkeypatch, ("upgrade",)).stdout
    assert invoke(monkeypatch, ("upgrade",), "-o", "markdown").stdout.startswith(
        "### Plan: Kubernetes v1.36.3 → v1.37.1"
    )
