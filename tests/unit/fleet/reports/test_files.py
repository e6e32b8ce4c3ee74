"""The files of a campaign: who writes them, and what a template of the user's own can't prevent."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fleet_folder import write_fleet
from upgrader.app.locking import lock_holder
from upgrader.engine.locks.folder_lock import folder_lock
from upgrader.errors import UsageError
from upgrader.fleet import use_cases
from upgrader.fleet.campaigns import begin, fleet_files
from upgrader.fleet.events import CampaignStarted, ClusterInputs, ClusterStarting, Pins
from upgrader.fleet.reports import files
from upgrader.fleet.reports.attempts import read_attempts
from upgrader.fleet.reports.files import fleet_report, refresh
from upgrader.model.version import KubernetesVersion


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the page of a campaign is to be, whose canary was begun on the first of January."""
    folder, target, clock = write_fleet(tmp_path), KubernetesVersion.release("v1.37.1"), FakeClock()
    for module in (use_cases, files):
        monkeypatch.setattr(module, "system_clock", lambda: clock)
    (folder / "runs").mkdir()
    inputs = tuple(ClusterInputs(name, "d") for name in "abc")
    started = CampaignStarted("20260101T000000-fleet-v1.37.1", target, Pins("1", "c", "p"), inputs, "ann")
    campaign, journal = begin(folder, started, fleet_files(folder), clock)
    journal.emit(ClusterStarting("a", 1))
    journal.close()
    return campaign.folder / "fleet.html"


def test_attempts_are_read_from_the_journal(page: Path) -> None:
    """The campaign's own, with their times."""
    (attempt,) = read_attempts(page.parent)["a"]
    assert (attempt.began, attempt.ended) == (FakeClock().now(), None)


def test_command_leaves_the_page_to_a_coordinator(page: Path, tmp_path: Path) -> None:
    """While one runs, a person's command doesn't write an older state over its page."""
    with folder_lock(tmp_path, lock_holder(), FakeClock()):
        refresh(tmp_path)
        assert not page.exists()
    refresh(tmp_path)
    assert "since 2026-01-01 00:00Z" in page.read_text()


def test_own_template_that_is_wrong(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is made without it, and says so."""
    own = tmp_path / "home/upgrader/templates/fleet"
    own.mkdir(parents=True)
    (own / "fleet.html.j2").write_text("{{ nothing_like_it }}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    assert fleet_report(tmp_path) == page
    assert "Your own template was not used: " in page.read_text()


@pytest.mark.parametrize("broken", ["calendar", "fleet_html"])
def test_one_file_that_can_not_be_made(
    page: Path, tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is written all the same, and the error, whatever it was, names the file."""

    def fail(*_arguments: object, **_named: object) -> str:
        raise KeyError("no such key")

    monkeypatch.setattr(files, broken, fail)
    own, other = ("fleet.ics", "fleet.html") if broken == "calendar" else ("fleet.html", "fleet.ics")
    with pytest.raises(UsageError, match=rf"{own} can't be made: KeyError: 'no such key'"):
        refresh(tmp_path)
    assert (page.parent / other).is_file() and not (page.parent / own).exists()


def test_page_that_can_not_be_written(page: Path, tmp_path: Path) -> None:
    """A folder in its place is named, and the calendar is written."""
    page.mkdir()
    with pytest.raises(UsageError, match=r"fleet\.html can't be written"):
        fleet_report(tmp_path)
    assert (page.parent / "fleet.ics").is_file()
