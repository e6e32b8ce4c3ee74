"""`upgrader status` and `upgrader history` on a machine that has only the cluster's folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from tests.unit.engine.journals import ONE, RUN, STARTED, Places, journal_of
from upgrader.app import remote_status
from upgrader.cli.main import cli
from upgrader.engine.history.journal_on_controllers import CONTROLLER_RUNS
from upgrader.engine.history.run_discovery import find_runs
from upgrader.engine.journal.journal_file import JOURNAL
from upgrader.errors import ApiUnavailable, CredentialsRefused
from upgrader.model.event import RunEnded, StepStarted
from upgrader.model.release import RestorePoint
from upgrader.ports import Kube

CHANGE = StepStarted("a", "v1 → v2", RestorePoint("a", "kube-system", 4))


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Places:
    """A cluster and its controllers, behind the command line."""
    places = Places()

    @contextmanager
    def open_kube(_folder: Path, _seconds: float) -> Iterator[Kube]:
        yield places.kube

    @contextmanager
    def open_session(_folder: Path) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(find_runs=lambda: find_runs(places.all))

    monkeypatch.setattr(remote_status, "open_kube", open_kube)
    monkeypatch.setattr(remote_status, "open_session", open_session)
    return places


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cluster folder without runs."""
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    return tmp_path


def upgrader(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["-C", str(folder), *arguments], catch_exceptions=False)


def test_status_of_another_machines_run(places: Places, folder: Path) -> None:
    """A run that was interrupted elsewhere is shown step by step, with where its journal is, and how to resume."""
    places.cluster.write(RUN, journal_of(folder / "there", RUN, STARTED, CHANGE))
    output = upgrader(folder, "status").output
    assert f"{RUN} was interrupted" in output
    assert "its journal is in the cluster" in output
    assert f"`upgrader -C {folder} resume`" in output


def test_status_with_the_api_away(places: Places, folder: Path) -> None:
    """A machine that knew nothing of the run reads from the controllers' disks what made the API unreachable."""
    content = journal_of(folder / "there", RUN, STARTED, CHANGE)
    places.hosts.files[ONE.name, f"{CONTROLLER_RUNS}/{RUN}/{JOURNAL}"] = content
    places.kube.unavailable = True
    output = upgrader(folder, "status").output
    assert f"its journal is in {ONE.name}" in output
    assert "the cluster's lock could not be read" in output
    assert "finds out over SSH why the API doesn't answer" in " ".join(output.split())


def test_status_with_credentials_that_are_refused(
    places: Places, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API did answer: nobody is sent to restore it."""

    def refuse(*_: object) -> None:
        raise CredentialsRefused("the API server refused it: HTTP 401")

    monkeypatch.setattr(remote_status, "read_lease", refuse)
    output = upgrader(folder, "status").output
    assert "HTTP 401" in output and "recover" not in output


def test_history_has_the_runs_of_all_machines(places: Places, folder: Path) -> None:
    """Runs of this folder and of others are one list, in the order in which they began."""
    journal_of(folder / "runs", RUN, STARTED, CHANGE, RunEnded(RUN, "succeeded", 3.0))
    other = RUN.replace("20260101", "20260102")
    places.cluster.write(other, journal_of(folder / "there", other, STARTED, RunEnded(other, "rolled-back", 3.0)))
    listed = json.loads(upgrader(folder, "history", "--json").stdout)
    assert [(run["run"], run["outcome"], run["place"]) for run in listed] == [
        (RUN, "succeeded", ""),
        (other, "rolled-back", "the cluster"),
    ]


def test_history_without_an_api(places: Places, folder: Path) -> None:
    """What the folder has is listed; that others' runs are missing is reported, but not among the data."""
    journal_of(folder / "runs", RUN, STARTED, RunEnded(RUN, "succeeded", 3.0))
    places.kube.unavailable = True
    ended = upgrader(folder, "history", "--json")
    assert [run["run"] for run in json.loads(ended.stdout)] == [RUN]
    assert "The runs of other machines could not be read" in ended.stderr


def test_an_api_that_is_away_is_no_failure(places: Places, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing anywhere, and no machine that answers: nobody knows whether there was a run, so nobody says so."""

    def no_session(_folder: Path) -> None:
        raise ApiUnavailable("no such machine")

    places.kube.unavailable = True
    monkeypatch.setattr(remote_status, "open_session", no_session)
    ended = upgrader(folder, "status")
    assert ended.exit_code == 0
    assert "no run was found" in ended.output and "no run yet" not in ended.output
