"""What is said of waits, and in which order clusters are listed."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest

from testkit.fleet_campaigns import campaign_of
from upgrader.cli.ui.fleet import print_classes, print_fleet, print_fleet_status
from upgrader.fleet.decide import Decision, Wait
from upgrader.fleet.model import FleetCluster
from upgrader.fleet.plans import PlanClass
from upgrader.fleet.reports.calendar import calendar
from upgrader.fleet.reports.page import fleet_html
from upgrader.fleet.reports.words import awaited, waiting
from upgrader.fleet.state import ClusterState
from upgrader.fleet.use_cases import FleetStatus

UNTIL = datetime(2026, 12, 2, 14, tzinfo=UTC)
NAMES = ["eu-10", "eu-2", "eu-1"]


@pytest.mark.parametrize(
    ("wait", "said", "what"),
    [
        (Wait("soak", UNTIL, gate=""), "soaking until 2026-12-02 14:00Z", "the end of its soak"),
        (
            Wait(
                "soak, and eu-1: gate errors doesn't pass: 0.2 is above 0.1",
                UNTIL,
                gate="eu-1: gate errors doesn't pass: 0.2 is above 0.1",
            ),
            "soaking until 2026-12-02 14:00Z; eu-1: gate errors doesn't pass: 0.2 is above 0.1",
            "the end of its soak, and eu-1: gate errors doesn't pass: 0.2 is above 0.1",
        ),
        (
            Wait("soak, and much more", UNTIL),
            "waits for soak, and much more, until 2026-12-02 14:00Z",
            "soak, and much more",
        ),
        (Wait("its window", UNTIL), "waits for its window, until 2026-12-02 14:00Z", "its window"),
        (Wait("paused by ann", stated=True), "waits: paused by ann", "paused by ann"),
    ],
)
def test_waits(wait: Wait, said: str, what: str) -> None:
    """A stage soaks until a time, and waits for everything else."""
    assert (waiting(wait), awaited(wait)) == (said, what)


def test_soak_in_the_calendar() -> None:
    """It ends then; no wait for soak does."""
    shown = campaign_of(5)
    status = replace(shown.status, decision=Decision(stages={"canary": Wait("soak", UNTIL, gate="")}))
    text = calendar(status, shown.now).replace("\r\n ", "")
    assert "stage canary: the soak ends" in text and "DESCRIPTION:Soaking until 2026-12-02 14:00Z." in text


def fleet_of(names: list[str]) -> FleetStatus:
    status = campaign_of(5).status
    labels = dict(status.fleet.clusters[0].labels)
    clusters = tuple(FleetCluster(name, Path("/none") / name, name, labels) for name in names)
    fleet = replace(status.fleet, clusters=clusters, stages=status.fleet.stages[:1], excluded=("lab-10", "lab-9"))
    state = replace(status.state, clusters={name: ClusterState(name) for name in names}, ended=None)
    decision = Decision(waits=dict.fromkeys(names, Wait("its window", UNTIL)))
    return replace(status, fleet=fleet, state=state, decision=decision)


def test_clusters_in_the_order_of_their_numbers() -> None:
    """In plan, status and page, whatever the order in the inventory is; in that one they begin."""
    status, out = fleet_of(NAMES), StringIO()
    print_fleet(status.fleet, out)
    print_fleet_status(status, out)
    print_classes([PlanClass(tuple(NAMES), ("canary",), None, "no plan", tuple(f"{name} d" for name in NAMES))], out)
    assert out.getvalue().count("eu-1, eu-2, eu-10") == 3 and "eu-1 d, eu-2 d, eu-10 d" in out.getvalue()
    assert "excluded: lab-9, lab-10" in out.getvalue()
    page = fleet_html(status, {}, UNTIL)
    assert re.findall(r"eu-\d+", page)[:3] == ["eu-1", "eu-2", "eu-10"]
    assert [each.name for each in status.fleet.members["canary"]] == NAMES
