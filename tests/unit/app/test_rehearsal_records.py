"""The record of a rehearsal, compared with what is planned later."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.app.test_saved_plans import BACKUP, CHANGES, Place, place
from tests.unit.engine.killing import TO, manifest
from upgrader.app import upgrade
from upgrader.app.rehearsal_records import bind_rehearsal, known_rehearsal, write_record
from upgrader.app.upgrade import PlannedUpgrade
from upgrader.model.finding import Finding
from upgrader.model.rehearsal_record import KnownRehearsal
from upgrader.model.version import KubernetesVersion

__all__ = ["place"]

GONE = Finding("rehearsal.gone", "error", "webs are stored, and the target does not serve them")


def planned(place: Place, use: Callable[[PlannedUpgrade], Any], bundle: Path | None = None) -> Any:
    """What is done with the plan of now, for a run with that bundle."""
    with upgrade.open_session(place.folder, TO) as session:  # type: ignore[attr-defined]  # the place has replaced it
        return use(PlannedUpgrade.of(session.with_bundle(bundle), None))


def record(place: Place, *findings: Finding) -> None:
    """Rehearse the plan of now, with these findings; by default, with one that blocks."""

    def write(found: PlannedUpgrade) -> None:
        bound = bind_rehearsal(found.session, found.observed, found.plan)
        write_record(found.session, bound, "digest", "controller-1", findings or (GONE,), place.world.clock.now())

    planned(place, write)


def known(place: Place, bundle: Path | None = None) -> KnownRehearsal | None:
    """As a check reads it."""

    def read(found: PlannedUpgrade) -> KnownRehearsal | None:
        return known_rehearsal(found.session, found.observed, found.plan)

    found: KnownRehearsal | None = planned(place, read, bundle)
    return found


def test_record_says_what_was_found_and_what_has_changed(place: Place) -> None:
    """Nothing at first; then each input that differs, and the cluster."""
    assert known(place) is None
    record(place)
    found = known(place)
    assert found is not None and (found.controller, found.findings, found.changed) == ("controller-1", (GONE,), ())
    place.values.update(manifest("a", "newer"))
    place.write("hosts.yml", "a: 2\n")
    found = known(place)
    assert found is not None
    rendered = "(the rendered manifest of a) changed"
    assert set(found.changed) >= {"hosts.yml changed", "(the values of a) changed", rendered}
    place.is_cluster("uid-2")
    found = known(place)
    assert found is not None and "it was made for another cluster" in found.changed[0]


@pytest.mark.parametrize("difference", [each for each in CHANGES if "expired" not in each])
def test_whatever_a_run_reads_makes_it_stale(place: Place, difference: str) -> None:
    """Values, what charts render to (flags are in that), charts, playbooks, the inventory, settings, the installed
    releases, the running version, and the cluster of the kubeconfig: what differs is named.
    """
    record(place)
    CHANGES[difference](place)
    found = known(place)
    assert found is not None and any(difference in each for each in found.changed)


def test_another_emulation_makes_it_stale(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """policy.emulation decides with which flags the target starts."""
    record(place)
    settings = replace(place.settings, emulation=not place.settings.emulation)
    monkeypatch.setattr(Place, "settings", settings)
    found = known(place)
    assert found is not None and found.changed == ("(the settings) changed",)


def test_rehearsal_to_another_version_is_none_of_this_upgrade(place: Place) -> None:
    """The next hop has no rehearsal, rather than one of something else: what is skipped for both has one id."""
    record(place)

    def to_the_next(found: PlannedUpgrade) -> KnownRehearsal | None:
        target = KubernetesVersion(TO.major, TO.minor + 1, 0)
        return known_rehearsal(found.session, found.observed, replace(found.plan, target=target))

    assert planned(place, to_the_next) is None


def test_backup_after_the_rehearsal_leaves_it_valid(place: Place) -> None:
    """Backups are taken every night, also into the cluster folder."""
    record(place)
    for name in BACKUP:
        place.write(f"backups/{name}", "a backup\n")
    found = known(place)
    assert found is not None and found.changed == ()


def test_run_with_a_bundle_relies_on_the_same_rehearsal(place: Place, tmp_path: Path) -> None:
    """`rehearse` has no `--bundle`: where nodes get their images from is nothing that it tries."""
    record(place)
    found = known(place, tmp_path / "bundle.tar")
    assert found is not None and found.changed == ()


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda text: text.replace("does not serve", "serves"), "its seal doesn't match"),
        (lambda text: text.replace('"format_version": "1"', '"format_version": "2"'), "format_version is 2"),
        (lambda text: "{", "rehearsal.json"),
    ],
    ids=["edited", "another format", "cut off"],
)
def test_record_that_was_changed_is_not_used(place: Place, edit: Callable[[str], str], why: str) -> None:
    """A finding that somebody took out, say."""
    record(place)
    path = place.folder / "runs/rehearsal.json"
    path.write_text(edit(path.read_text()))
    with pytest.raises(ValueError, match=why):
        known(place)


def test_record_whose_releases_are_named_twice_is_not_used(place: Place) -> None:
    """No difference is named then, and its seal's key is another one: what it says was not compared with anything."""
    record(place)
    path = place.folder / "runs/rehearsal.json"
    content = json.loads(path.read_text())
    content["binding"]["releases"] *= 2
    content["findings"] = []
    path.write_text(json.dumps(content))
    place.write("hosts.yml", "a: 2\n")
    found = known(place)
    assert found is not None and found.changed
