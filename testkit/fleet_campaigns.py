"""Campaigns in the middle, of as many clusters as wanted, for what shows them to people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from upgrader.engine.locks.folder_lock import FolderHolder
from upgrader.fleet.campaigns import Campaign
from upgrader.fleet.cron import Cron
from upgrader.fleet.decide import decide
from upgrader.fleet.events import (
    CampaignEvent,
    CampaignStarted,
    ClusterChecked,
    ClusterEnded,
    ClusterInputs,
    ClusterStarting,
    Outcome,
    Pins,
    SoakChecked,
)
from upgrader.fleet.model import Fleet, FleetCluster, MaxFailures, Stage
from upgrader.fleet.reports.attempts import Attempt, attempts_of
from upgrader.fleet.selectors import Requirement, Selector
from upgrader.fleet.state import fold
from upgrader.fleet.use_cases import FleetStatus
from upgrader.fleet.windows import Exclusion, Window
from upgrader.model.health_before import IntOrPercent
from upgrader.model.version import KubernetesVersion

__all__ = ["BEGIN", "HOSTILE", "TARGET", "Shown", "campaign_of"]

BEGIN = datetime(2026, 11, 30, 21, 0, tzinfo=UTC)
TARGET = KubernetesVersion.release("v1.37.1")
HOSTILE = "<script>alert(1)</script>\x1b[31m; {{ 7*7 }}\\,\r\nBEGIN:VEVENT"
_ZONE = ZoneInfo("Europe/Berlin")


@dataclass(frozen=True)
class Shown:
    """A campaign at a time."""

    status: FleetStatus
    attempts: Mapping[str, tuple[Attempt, ...]]
    now: datetime


def campaign_of(number: int, *, reason: str = "etcd has an alarm: NOSPACE", runs: bool = True) -> Shown:
    """A campaign in its second night: the canary has soaked; half of `production` is done, of which two were rolled
    back, and one blocked for a `reason`; a fifth runs, one doesn't answer, the rest waits for its window; `last` waits
    for the stages before it. `runs`: whether a coordinator runs.
    """
    names = [f"eu-central-{each:03}.example" for each in range(number)]
    last = number - max(1, number // 10)
    rings = {name: "last" if place >= last else "production" if place else "canary" for place, name in enumerate(names)}
    limit = IntOrPercent(percent=50)
    limits = MaxFailures(blocked=limit, rolled_back=limit, same_cause=number)
    fleet = Fleet(
        TARGET,
        (
            Stage("canary", _ring("canary"), IntOrPercent(1), soak_seconds=86400.0),
            Stage("production", _ring("production"), IntOrPercent(percent=40), limits),
            Stage("last", _ring("last"), IntOrPercent(1), approval=True),
        ),
        tuple(FleetCluster(name, Path("/none") / name, name, {"ring": rings[name]}) for name in names),
        excluded=("lab",),
        windows=(Window(Selector(), Cron.parse("0 22 * * 1-4"), 4 * 3600.0, _ZONE),),
        exclusions=(Exclusion(Selector(), date(2026, 12, 3), date(2026, 12, 3), _ZONE),),
    )
    now = BEGIN + timedelta(hours=27, minutes=50)
    events = tuple(_events(names, names[1:last], reason))
    state = fold(events)
    holder = FolderHolder("ann@host-1", BEGIN) if runs else None
    campaign = Campaign(Path("/none/runs") / state.campaign)
    return Shown(FleetStatus(fleet, campaign, state, decide(fleet, state, now), holder), attempts_of(events), now)


def _ring(name: str) -> Selector:
    return Selector((Requirement("ring", "In", (name,)),))


def _events(names: list[str], production: list[str], reason: str) -> Iterator[tuple[datetime, CampaignEvent]]:
    inputs = tuple(ClusterInputs(name, "d") for name in names)
    yield BEGIN, CampaignStarted(f"{BEGIN:%Y%m%dT%H%M%S}-fleet-{TARGET}", TARGET, Pins("1", "c", "p"), inputs, "ann")
    yield BEGIN, ClusterStarting(names[0], 1)
    yield BEGIN + timedelta(minutes=12), ClusterEnded(names[0], 1, "succeeded", 720.0, "run-1")
    yield BEGIN + timedelta(hours=24, minutes=13), SoakChecked(names[0], True)
    second = BEGIN + timedelta(hours=24, minutes=15)
    done, running = len(production) // 2, max(1, len(production) // 5)
    for place, name in enumerate(production[:done]):
        begun = second + timedelta(minutes=180 * place / done)
        yield begun, ClusterStarting(name, 1)
        outcome, cause = _END.get(place, ("succeeded", ""))
        yield (
            begun + timedelta(minutes=11),
            ClusterEnded(name, 1, outcome, 660.0, "run-1", cause, f"{cause}: {reason}" if cause else ""),
        )
    for name in production[done : done + running]:
        yield second + timedelta(minutes=200), ClusterStarting(name, 1)
    for name in production[-1:]:
        yield second + timedelta(minutes=201), ClusterChecked(name, "unreachable", f"{name}: no answer: {reason}")


_END: Mapping[int, tuple[Outcome, str]] = {
    0: ("rolled-back", "gate"),
    3: ("rolled-back", "gate"),
    7: ("blocked", "check"),
}
"""Which of the clusters of production that are done have failed, and for which cause."""
