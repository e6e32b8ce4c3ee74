"""Whether what a run changes was rehearsed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.unit.preflight.conftest import World
from upgrader.model.finding import Finding
from upgrader.model.rehearsal_record import KnownRehearsal
from upgrader.model.settings import RehearsalMode, RehearsalSettings
from upgrader.preflight.rehearsal_record import check_rehearsal

GONE = Finding("rehearsal.gone", "error", "webs are stored, and the target does not serve them")
ADDED = Finding("rehearsal.added", "info", "the target adds fields to webs")

DROPPED = Finding("rehearsal.dropped", "warning", "the target drops fields of webs")


def found(world: World, read: Callable[[], KnownRehearsal | None], mode: RehearsalMode = "require") -> list[Finding]:
    """By a check of a plan with a change."""
    world.manifests["web"] = "kind: ConfigMap"
    context = replace(world.context(), rehearsal_policy=RehearsalSettings(mode), known_rehearsal=read)
    return list(check_rehearsal(context))


def rehearsal(world: World, *findings: Finding, days: float = 1, changed: tuple[str, ...] = ()) -> KnownRehearsal:
    """One of some days ago."""
    return KnownRehearsal(world.clock.now() - timedelta(days=days), "controller-1", findings, changed)


def damaged() -> KnownRehearsal | None:
    raise ValueError("its seal doesn't match")


@pytest.mark.parametrize(("mode", "severity"), [("require", "error"), ("warn", "warning")])
def test_each_state_is_a_finding(world: World, mode: RehearsalMode, severity: str) -> None:
    """What is missing, stale, too old, refused by the target or unusable blocks a run, or warns, as the file says."""
    states: dict[str, Callable[[], KnownRehearsal | None]] = {
        "rehearsal.missing": lambda: None,
        "rehearsal.damaged": damaged,
        "rehearsal.old": lambda: rehearsal(world, days=7.1),
        "rehearsal.stale": lambda: rehearsal(world, changed=("values/web.yaml changed",)),
        "rehearsal.gone": lambda: rehearsal(world, GONE, ADDED),
    }
    for id_, read in states.items():
        *_, last = found(world, read, mode)
        assert (last.id, last.severity) == (id_, severity)
        if id_ != "rehearsal.gone":  # which has a remedy of its own
            command = f"upgrader run --to {world.context().target} --skip {id_} --reason TEXT"
            assert last.remedy.endswith(f"Or accept it: {command}")
        assert not found(world, read, "ignore")
    (stale,) = found(world, states["rehearsal.stale"], mode)
    assert stale.diagnosis == "values/web.yaml changed"


def test_rehearsal_that_the_run_relies_on_is_named(world: World) -> None:
    """When it was, and on which controller. Readers of the plan, or of its Markdown in a merge request, see what it
    has warned of, too; information isn't repeated.
    """
    used, dropped = found(world, lambda: rehearsal(world, ADDED, DROPPED))
    assert (used.id, used.severity) == ("rehearsal.used", "info") and used.title.endswith("UTC, on controller-1")
    assert dropped == DROPPED and not dropped.blocking
    assert found(world, lambda: rehearsal(world, DROPPED), "warn")[1:] == [DROPPED]


@pytest.mark.parametrize(
    ("ahead", "id_"), [(timedelta(minutes=3), "rehearsal.used"), (timedelta(hours=1), "rehearsal.old")]
)
def test_rehearsal_of_the_future_is_no_new_one(world: World, ahead: timedelta, id_: str) -> None:
    """By a clock that was wrong then or is now: its age is not known, and it would count for years. Clocks of two
    machines may differ by some minutes.
    """
    (last,) = found(world, lambda: rehearsal(world, ADDED, days=-ahead / timedelta(days=1)))
    assert last.id == id_
    if last.blocking:
        assert "in the future" in last.title and "clock" in last.diagnosis and "--skip rehearsal.old" in last.remedy


def test_what_changes_nothing_needs_no_rehearsal(world: World) -> None:
    """Neither does a plan that is none of an upgrade."""
    policy = RehearsalSettings("require")
    context = replace(world.context(), rehearsal_policy=policy, known_rehearsal=lambda: None)
    assert not list(check_rehearsal(replace(context, plan=None)))
    assert not list(check_rehearsal(replace(context, known_rehearsal=None)))


def test_accepting_the_age_of_a_rehearsal_does_not_accept_what_it_found(world: World) -> None:
    """Nothing has changed since: what the target refused then, it refuses now."""
    old, gone = found(world, lambda: rehearsal(world, GONE, ADDED, days=9))
    assert (old.id, gone) == ("rehearsal.old", GONE)
    old, gone = found(world, lambda: rehearsal(world, GONE, ADDED, days=9), "warn")
    assert (old.id, gone.id, gone.severity) == ("rehearsal.old", "rehearsal.gone", "warning")


def test_a_rehearsal_for_a_different_change_says_what_it_found(world: World) -> None:
    """That may be fixed by the change, or not: who accepts the change needs to know it."""
    (stale,) = found(world, lambda: rehearsal(world, GONE, ADDED, DROPPED, changed=("values/web.yaml changed",)))
    assert stale.id == "rehearsal.stale" and stale.diagnosis.startswith("values/web.yaml changed. ")
    assert "rehearsal.gone" in stale.diagnosis and "rehearsal.added" not in stale.diagnosis
