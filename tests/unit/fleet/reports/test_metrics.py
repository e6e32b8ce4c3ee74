"""The metrics of a campaign: what Prometheus reads of them."""

from __future__ import annotations

from dataclasses import replace

from testkit.fleet_campaigns import Shown, campaign_of
from tests.unit.reporting.observability.test_run_metrics import read
from upgrader.fleet.decide import Decision, decide
from upgrader.fleet.events import Paused
from upgrader.fleet.reports.metrics import PHASES, fleet_metrics
from upgrader.reporting.observability.exposition import rendered


def metrics(shown: Shown) -> dict[str, dict[tuple[str, ...], float]]:
    return read(rendered(fleet_metrics(shown.status, "all", shown.now)))


def test_every_cluster_is_counted_once() -> None:
    """Of each stage, by phase; also a phase that no cluster is in has its series."""
    shown = campaign_of(500)
    counts = metrics(shown)["upgrader_fleet_clusters"]
    assert len(counts) == 3 * len(PHASES) and sum(counts.values()) == 500
    labels = {key: value for key, value in counts.items() if key[1] == "production"}
    assert labels["all", "production", "rolled-back"] == 2 and labels["all", "production", "broken"] == 0
    assert metrics(shown)["upgrader_fleet_problems"]["all", "production", "unreachable"] == 1


def test_campaign_that_goes_on() -> None:
    """Its state, when the next wait ends, and when it was looked after."""
    shown = campaign_of(20)
    found = metrics(shown)
    assert [key[1] for key, value in found["upgrader_fleet_state"].items() if value] == ["goes-on"]
    assert found["upgrader_fleet_stopped"] == {("all",): 0.0}
    assert found["upgrader_fleet_look_timestamp_seconds"] == {("all",): shown.now.timestamp()}
    assert found["upgrader_fleet_next_timestamp_seconds"]["all",] > shown.now.timestamp()


def test_paused_and_ended() -> None:
    """A pause stops it, and needs no person while a run is in progress; the end is its own state."""
    shown = campaign_of(20)
    state = replace(shown.status.state, paused=Paused("bob", "audit"))
    status = replace(shown.status, state=state, decision=decide(shown.status.fleet, state, shown.now))
    assert metrics(replace(shown, status=status))["upgrader_fleet_stopped"] == {("all",): 1.0}
    status = replace(status, state=replace(state, ended=shown.now), decision=Decision(done=True))
    found = metrics(replace(shown, status=status))
    assert [key[1] for key, value in found["upgrader_fleet_state"].items() if value] == ["done"]
    assert found["upgrader_fleet_stopped"] == {("all",): 0.0} and "upgrader_fleet_next_timestamp_seconds" not in found
