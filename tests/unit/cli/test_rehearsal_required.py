"""`upgrader plan` and `upgrader run` where policy.rehearsal.mode is `require`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from click.testing import CliRunner, Result

from tests.unit.app.test_rehearsal_records import GONE, record
from tests.unit.app.test_saved_plans import Place, place
from tests.unit.app.test_upgrade import FakeSession
from tests.unit.engine.killing import TO
from upgrader.app import upgrade
from upgrader.app.wiring import Session
from upgrader.cli.main import cli
from upgrader.errors import UpgraderError
from upgrader.model.finding import Finding
from upgrader.model.observed import Observed
from upgrader.model.settings import RehearsalSettings
from upgrader.steps.plan import Plan

__all__ = ["place"]

ADDED = Finding("rehearsal.added", "info", "the target adds fields to webs")


def _stale(place: Place) -> None:
    record(place, ADDED)
    place.write("undo.yml", "a: 2\n")


STATES: dict[str, Callable[[Place], None]] = {
    "rehearsal.missing": lambda _: None,
    "rehearsal.stale": _stale,
    "rehearsal.gone": lambda place: record(place, GONE),
    "rehearsal.used": lambda place: record(place, ADDED),
}


@pytest.fixture(autouse=True)
def required(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the checks, only the one of the rehearsal is made."""
    place.write("upgrader.yaml", f"kubernetesVersion: {TO}\n")
    opened = vars(upgrade)["open_session"]

    @contextmanager
    def requiring(*given: object) -> Iterator[Session]:
        with opened(*given) as session:
            yield replace(session, settings=replace(session.settings, rehearsal=RehearsalSettings("require")))

    def preflight(session: Session, observed: Observed, plan: Plan, *_: object) -> tuple[Finding, ...]:
        return Session.preflight(session, observed, plan, ("rehearsal",))

    monkeypatch.setattr(upgrade, "open_session", requiring)
    monkeypatch.setattr(FakeSession, "preflight", preflight)


def invoke(place: Place, *arguments: str) -> tuple[Result, int]:
    """A command in the folder, and the exit code of the process."""
    result = CliRunner().invoke(cli, ["-C", str(place.folder), *arguments])
    error = result.exception
    if error is None or isinstance(error, SystemExit):
        return result, result.exit_code
    assert isinstance(error, UpgraderError), result
    return result, error.exit_code


@pytest.mark.parametrize("state", STATES)
def test_only_with_a_good_rehearsal_is_anything_run(place: Place, state: str) -> None:
    """`plan` has the finding, also in JSON, and both commands end with 3 otherwise: nothing was changed then."""
    STATES[state](place)
    before = place.world.deployed
    good = state == "rehearsal.used"
    result, code = invoke(place, "plan", "-o", "json")
    document = json.loads(result.stdout)
    assert (document["blocked"], code) == ((False, 0) if good else (True, 3))
    assert state in [finding["id"] for finding in document["findings"]]
    assert state in invoke(place, "plan")[0].stdout
    assert invoke(place, "run", "--yes")[1] == (0 if good else 3)
    assert (place.world.deployed != before) is good


def test_what_a_rehearsal_lacks_can_be_accepted(place: Place) -> None:
    """By its id, with a reason that the run's report has."""
    record(place, GONE)
    assert invoke(place, "run", "--yes", "--skip", "rehearsal.missing", "--reason", "no")[1] == 3
    assert invoke(place, "run", "--yes", "--skip", "rehearsal.gone", "--reason", "webs are deleted first")[1] == 0
    (report,) = (place.folder / "runs").glob("*/report.json")
    assert "webs are deleted first" in report.read_text()
