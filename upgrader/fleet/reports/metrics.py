"""The metrics of a campaign. Each label has few values: fleets, stages, phases, problems, states."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import get_args

from upgrader.fleet.coordinator import goes_on
from upgrader.fleet.events import Outcome, Problem
from upgrader.fleet.use_cases import FleetStatus
from upgrader.reporting.observability.exposition import Family, Sample

__all__ = ["PHASES", "STATES", "fleet_metrics", "state_of"]

PHASES = ("waiting", "running", "skipped", *get_args(Outcome))
"""The values of the label `phase`; each cluster is in exactly one."""
STATES = ("goes-on", "needs-a-person", "done")
"""The values of the label `state`; exactly one of them is 1."""
_PROBLEMS = tuple(each for each in get_args(Problem) if each)


def state_of(status: FleetStatus) -> str:
    """One of STATES."""
    if status.state.ended is not None or status.decision.done:
        return "done"
    return "goes-on" if goes_on(status.decision, status.state) else "needs-a-person"


def fleet_metrics(status: FleetStatus, fleet: str, now: datetime) -> tuple[Family, ...]:
    """The metrics of a campaign that was begun, as a coordinator sees it at `now`; `fleet` is its name in metrics."""
    labels, state, decision = {"fleet": fleet}, status.state, status.decision
    phases = Counter[tuple[str, str]]()
    problems = Counter[tuple[str, str]]()
    for cluster in status.fleet.clusters:
        each, stage = state.clusters[cluster.name], status.fleet.stage_of[cluster.name].name
        phases[stage, each.phase] += 1
        problems[stage, each.problem] += 1
    stages = [stage.name for stage in status.fleet.stages]
    waits = (*decision.waits.values(), *decision.stages.values())
    times = [wait.until for wait in waits if wait.timed and wait.until]
    known = state_of(status)
    return (
        Family(
            "upgrader_fleet_clusters",
            "gauge",
            "Clusters of the newest campaign, by stage and phase.",
            tuple(
                Sample({**labels, "stage": stage, "phase": phase}, float(phases[stage, phase]))
                for stage in stages
                for phase in PHASES
            ),
        ),
        Family(
            "upgrader_fleet_problems",
            "gauge",
            "Clusters that can't be started or resumed because of this problem, by stage.",
            tuple(
                Sample({**labels, "stage": stage, "problem": problem}, float(problems[stage, problem]))
                for stage in stages
                for problem in _PROBLEMS
            ),
        ),
        Family(
            "upgrader_fleet_state",
            "gauge",
            "State of the newest campaign: 1 for this state, 0 for the others.",
            tuple(Sample({**labels, "state": each}, float(each == known)) for each in STATES),
        ),
        Family(
            "upgrader_fleet_stopped",
            "gauge",
            "Whether no cluster may start: paused, too many failures, or a changed file; 1 or 0.",
            (Sample(labels, float(bool(decision.stop) and known != "done")),),
        ),
        Family(
            "upgrader_fleet_next_timestamp_seconds",
            "gauge",
            "The earliest known end of a wait.",
            (Sample(labels, min(times).timestamp()),) if times else (),
        ),
        Family(
            "upgrader_fleet_look_timestamp_seconds",
            "gauge",
            "When a coordinator last checked the newest campaign.",
            (Sample(labels, now.timestamp()),),
        ),
    )
