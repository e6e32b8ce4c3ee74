"""A fleet on the terminal: as short for 500 clusters as for five."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest

from testkit.fleet_campaigns import campaign_of
from upgrader.cli.ui.fleet import changed_lines, phase_lines, print_fleet, print_fleet_status
from upgrader.fleet.campaigns import Campaign
from upgrader.fleet.decide import decide
from upgrader.fleet.events import (
    CampaignEvent,
    CampaignStarted,
    ClusterEnded,
    ClusterInputs,
    ClusterStarting,
    Outcome,
    Pins,
)
from upgrader.fleet.model import Fleet, FleetCluster, MaxFailures, Stage
from upgrader.fleet.reports.calendar import calendar
from upgrader.fleet.selectors import Requirement, Selector
from upgrader.fleet.state import fold
from upgrader.fleet.use_cases import FleetStatus
from upgrader.model.health_before import IntOrPercent
from upgrader.model.version import KubernetesVersion

BEGIN = datetime(2026, 12, 1, tzinfo=UTC)
TARGET = KubernetesVersion.release("v1.37.1")


def status_of(number: int) -> FleetStatus:
    """A canary that is done, and a stage of which half is done, with a failure; a fifth runs."""
    names = [f"eu-central-{each:03}.example" for each in range(number)]
    clusters = tuple(
        FleetCluster(name, Path("/none"), name, {"ring": "c" if not n else "p"}) for n, name in enumerate(names)
    )
    limits = MaxFailures(rolled_back=IntOrPercent(percent=50))
    stages = tuple(
        Stage(ring, Selector((Requirement("ring", "In", (ring,)),)), IntOrPercent(percent=40), limits) for ring in "cp"
    )
    fleet = Fleet(TARGET, stages, clusters)
    inputs = tuple(ClusterInputs(name, "d") for name in names)
    events: list[CampaignEvent] = [CampaignStarted("20261201T000000-fleet", TARGET, Pins("1", "c", "p"), inputs, "me")]
    for each, name in enumerate(names[: number // 2 + number // 5]):
        events.append(ClusterStarting(name, 1))
        if each <= number // 2:
            outcome: Outcome = "rolled-back" if each == 1 else "succeeded"
            events.append(ClusterEnded(name, 1, outcome, 600.0, "r", reason="not ready" if each == 1 else ""))
    times = (BEGIN + timedelta(minutes=each) for each in range(len(events)))
    state = fold(zip(times, events, strict=True))
    now = BEGIN + timedelta(days=1)
    return FleetStatus(fleet, Campaign(Path("/none")), state, decide(fleet, state, now), None)


@pytest.mark.parametrize("number", [5, 500])
def test_status_fits_a_terminal(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters in the same state are one line; those that run show since when, those that are next say so."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = StringIO()
    print_fleet_status(status_of(number), shown)
    text = shown.getvalue()
    assert len(text.splitlines()) < 20
    assert "`upgrader fleet run` is not active" in text and "not ready" in text
    if number == 500:
        assert "2026-12-01 08:23Z, the last one since" in text and "next to begin" in text
        assert "and 97 more" in text and "waits for its turn" in text


@pytest.mark.parametrize("number", [5, 500])
def test_each_cluster_says_what_it_waits_for_and_until_when(number: int) -> None:
    """Its stage says it for all clusters that only wait for other stages; on few lines for 500 clusters."""
    shown = StringIO()
    print_fleet_status(campaign_of(number).status, shown)
    lines = shown.getvalue().splitlines()
    assert len(lines) < 25
    for place, line in enumerate(lines):
        if "· waiting" in line:
            said = lines[place + 1] if lines[place + 1 :] and "waits for" in lines[place + 1] else lines[place - 1]
            assert "waits for" in said and (", until 2026-12-" in said or "the stages before it, then" in said)


def test_one_cluster_is_no_plural() -> None:
    """Neither on the terminal nor in the calendar."""
    status = status_of(1)
    one = replace(status, fleet=replace(status.fleet, stages=status.fleet.stages[:1]))
    shown = StringIO()
    print_fleet(one.fleet, shown)
    assert "1 cluster in 1 stage\n" in shown.getvalue()
    assert "1 cluster in 1 stage." in calendar(one, BEGIN)


def test_lines_of_a_campaign_that_goes_on() -> None:
    """The first look tells what is known in a few lines; later looks have a line for each cluster that has changed."""
    status = status_of(500)
    lines = [*phase_lines(status.state, None), *changed_lines(status.decision, None)]
    assert len(lines) < 8 and any(line.endswith("and 247 more: succeeded") for line in lines)
    one = status.state.clusters["eu-central-300.example"]
    after = replace(
        status.state, clusters={**status.state.clusters, one.name: replace(one, phase="succeeded", run="r")}
    )
    assert list(phase_lines(after, status.state)) == ["eu-central-300.example: succeeded, run r"]
    assert list(changed_lines(status.decision, status.decision)) == []
