"""What `upgrader fleet` does: reads a fleet folder, begins or continues its campaign, takes what persons ask for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from upgrader.app.locking import lock_holder, own_name
from upgrader.app.wiring import system_clock
from upgrader.engine.locks.folder_lock import FolderHolder, folder_holder, folder_lock
from upgrader.errors import Blocked, CampaignStopped, Locked, UsageError
from upgrader.fleet.campaigns import Campaign, begin, newest_campaign
from upgrader.fleet.clusters import ask_cluster
from upgrader.fleet.coordinator import Coordinator
from upgrader.fleet.decide import Decision, decide
from upgrader.fleet.events import (
    CampaignContinued,
    CampaignStarted,
    ClusterInputs,
    ClusterSkipped,
    InputsApproved,
    Paused,
    Request,
    RetryRequested,
    StageApproved,
    Unpaused,
)
from upgrader.fleet.inputs import folder_digest, own_pins
from upgrader.fleet.local_executor import LocalExecutor
from upgrader.fleet.model import Fleet
from upgrader.fleet.reading import read_fleet
from upgrader.fleet.state import CampaignState, ClusterState

__all__ = [
    "FleetStatus",
    "approve",
    "approve_changes",
    "fleet_status",
    "open_campaign",
    "pause",
    "proposed_fleet",
    "refuse_unfinished",
    "retry",
    "skip",
    "unpause",
]

_OVERRIDES = ("UPGRADER_KUBECONFIG", "UPGRADER_CONTEXT")
_STATUS = "upgrader fleet status"


@dataclass(frozen=True)
class FleetStatus:
    """A fleet, its newest campaign, and what is waited for."""

    fleet: Fleet
    campaign: Campaign | None
    state: CampaignState
    decision: Decision
    """What a coordinator would do now."""
    coordinator: FolderHolder | None
    """Who runs the campaign; None: no one, so that nothing begins."""


def proposed_fleet(folder: Path) -> Fleet:
    """The fleet of a folder, as a campaign would begin it. Raises UsageError, and ConfigError with file and line."""
    for name in _OVERRIDES:
        if os.environ.get(name):
            raise UsageError(
                f"{name} is set (or --kubeconfig or --context was given): every cluster of the fleet would be that one",
                remedy=f"Unset {name}; each cluster's folder names its kubeconfig.",
            )
    return read_fleet(folder, system_clock().now())


def fleet_status(folder: Path) -> FleetStatus:
    """How far the newest campaign is. Needs no cluster. Raises UsageError."""
    fleet, campaign = proposed_fleet(folder), newest_campaign(folder)
    if campaign is None:
        state = CampaignState(clusters={each.name: ClusterState(each.name) for each in fleet.clusters})
        return FleetStatus(fleet, None, state, decide(fleet, state, system_clock().now()), folder_holder(folder))
    state = campaign.state()
    held = campaign.changed_files(folder) if state.open else ""
    decision = decide(fleet, state, system_clock().now(), held)
    return FleetStatus(fleet, campaign, state, decision, folder_holder(folder))


@contextmanager
def open_campaign(
    folder: Path, confirm: Callable[[Fleet, bool], None], *, anew: bool = False
) -> Iterator[Coordinator | None]:
    """Begin a campaign, or go on with the newest one; None: that has ended, and nothing has changed since.

    `confirm` gets the fleet before a new campaign begins, and whether another one is left open; it raises where it
    must not. Raises Locked where another coordinator runs, Blocked for a campaign that was begun with other files or
    another upgrader, and UsageError for a folder that is wrong.
    """
    fleet, clock = proposed_fleet(folder), system_clock()
    executor = LocalExecutor(environ=os.environ)
    with folder_lock(folder, lock_holder(), clock, status=_STATUS):
        campaign = newest_campaign(folder)
        state = campaign.state() if campaign else CampaignState()
        if campaign and state.open and not anew:
            _refuse_changes(campaign, state, folder)
            journal = campaign.reopen(clock)
            journal.emit(CampaignContinued(own_name()))
        elif campaign and not anew and not campaign.changed_files(folder):
            yield None
            return
        else:
            if campaign:
                _refuse_running(campaign, state, executor)
            confirm(fleet, state.open)
            inputs = tuple(ClusterInputs(each.name, folder_digest(each.folder)) for each in fleet.clusters)
            name = f"{clock.now():%Y%m%dT%H%M%S}-fleet-{fleet.target}"
            started = CampaignStarted(name, fleet.target, own_pins(), inputs, own_name())
            campaign, journal = begin(folder, started, clock)
        try:
            yield Coordinator(folder, fleet, campaign, journal, executor, clock, ask_cluster)
        finally:
            journal.close()


def _refuse_changes(campaign: Campaign, state: CampaignState, folder: Path) -> None:
    anew = "Or begin another campaign with what is there now: upgrader fleet run --new"
    if changed := campaign.changed_files(folder):
        raise Blocked(f"{changed} ({campaign.name}); nothing was started", remedy=f"Restore it. {anew}")
    pins = own_pins()
    if state.pins is not None and pins != state.pins:
        raise Blocked(
            f"campaign {campaign.name} was begun with upgrader {state.pins.upgrader} and charts "
            f"{state.pins.charts[:12]}; this is upgrader {pins.upgrader} with charts {pins.charts[:12]}; nothing was "
            "started",
            remedy=f"Use the upgrader that began it. {anew}",
        )


def _refuse_running(campaign: Campaign, state: CampaignState, executor: LocalExecutor) -> None:
    for each in state.clusters.values():
        if each.phase == "running" and executor.running(campaign.attempt(each.name, each.attempt)):
            raise Locked(
                f"cluster {each.name} is being upgraded by campaign {campaign.name}",
                remedy=f"Wait for it to end; `{_STATUS}` shows the campaign.",
            )


def refuse_unfinished(decision: Decision, state: CampaignState) -> None:
    """Raise the error of a campaign that can't go on without a person; the worst failure decides its exit code."""
    if decision.done:
        return
    failed = [each for each in state.clusters.values() if each.failed]
    reasons = dict.fromkeys([wait.reason for wait in decision.stages.values() if wait.person])
    text = decision.stop or "; ".join(reasons) or "it waits for a person"
    message = f"campaign {state.campaign} can't go on without a person: {text}"
    remedy = f"`{_STATUS}` shows what each cluster waits for; `upgrader fleet run` goes on afterwards."
    phases = {each.phase for each in failed}
    code = 5 if phases & {"broken", "interrupted"} else 4 if "rolled-back" in phases else 3
    raise CampaignStopped(message, remedy=remedy, exit_code=code)


def approve(folder: Path, stage: str, reason: str) -> None:
    """Approve a stage. Raises UsageError for one that needs no approval."""
    fleet, campaign = proposed_fleet(folder), _open(folder)
    waiting = [each.name for each in fleet.stages if each.approval]
    if stage not in waiting:
        raise UsageError(
            f"no stage {stage} needs an approval", remedy=f"Those that do: {', '.join(waiting) or 'none'}."
        )
    _ask(campaign, StageApproved(stage, own_name(), reason))


def approve_changes(folder: Path, cluster: str, reason: str) -> None:
    """Approve what is in a cluster's folder now. Raises UsageError."""
    fleet, campaign = proposed_fleet(folder), _open(folder)
    _known(campaign.state(), cluster)
    _ask(campaign, InputsApproved(cluster, folder_digest(fleet.by_name[cluster].folder), own_name(), reason))


def pause(folder: Path, reason: str) -> None:
    """Let no cluster begin; runs finish. Raises UsageError."""
    _ask(_open(folder), Paused(own_name(), reason))


def unpause(folder: Path) -> None:
    """Let clusters begin again. Raises UsageError for a campaign that isn't paused."""
    campaign = _open(folder)
    if campaign.state().paused is None:
        raise UsageError(f"campaign {campaign.name} isn't paused")
    _ask(campaign, Unpaused(own_name()))


def retry(folder: Path, cluster: str) -> None:
    """Run a cluster again that failed or was skipped, with the same pins. Raises UsageError for any other."""
    campaign = _open(folder)
    state = _known(campaign.state(), cluster)
    if not (state.failed or state.retried or state.problem or state.phase == "skipped"):
        raise UsageError(f"cluster {cluster} is {state.phase}: there is nothing to retry")
    _ask(campaign, RetryRequested(cluster, own_name()))


def skip(folder: Path, cluster: str, reason: str) -> None:
    """Leave a cluster out until it is retried. Raises UsageError for one that runs or is done."""
    campaign = _open(folder)
    state = _known(campaign.state(), cluster)
    if state.phase in ("running", "succeeded", "skipped"):
        raise UsageError(f"cluster {cluster} is {state.phase}: it can't be skipped")
    _ask(campaign, ClusterSkipped(cluster, own_name(), reason))


def _open(folder: Path) -> Campaign:
    campaign = newest_campaign(folder)
    if campaign is None or not campaign.state().open:
        raise UsageError(f"{folder} has no campaign in progress", remedy="Begin one: upgrader fleet run")
    return campaign


def _known(state: CampaignState, cluster: str) -> ClusterState:
    found = state.clusters.get(cluster)
    if found is None:
        raise UsageError(f"the campaign has no cluster {cluster}", remedy="fleet-inventory.yaml names them.")
    return found


def _ask(campaign: Campaign, request: Request) -> None:
    campaign.ask(request, system_clock())
