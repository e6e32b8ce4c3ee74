"""What `upgrader fleet` does: reads a fleet folder, begins or continues its campaign, takes what persons ask for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from upgrader.app.locking import lock_holder, own_name
from upgrader.app.wiring import open_api, system_clock
from upgrader.config.fleet_files import refuse_other_folder
from upgrader.config.yaml_document import typed
from upgrader.engine.locks.folder_lock import FolderHolder, folder_holder, folder_lock
from upgrader.errors import Blocked, CampaignStopped, Locked, UpgraderError, UsageError
from upgrader.fleet.approved_copies import remove_copies
from upgrader.fleet.at_work import at_work, unknown
from upgrader.fleet.campaigns import INPUTS, KUBECONFIG, Campaign, begin, fleet_files, newest_campaign
from upgrader.fleet.cluster_checks import Questions, at_home
from upgrader.fleet.clusters import ask_cluster, other_cluster, private_kubeconfig, remove_left_kubeconfigs
from upgrader.fleet.coordinator import Coordinator, Executor
from upgrader.fleet.decide import Decision, Held, decide
from upgrader.fleet.events import (
    CampaignContinued,
    CampaignStarted,
    ClusterInputs,
    ClusterSkipped,
    ExecutorName,
    InputsApproved,
    JobsGone,
    Paused,
    Pins,
    Request,
    RetryRequested,
    StageApproved,
    Unpaused,
)
from upgrader.fleet.fleet_folder import read_fleet
from upgrader.fleet.inputs import (
    Inputs,
    inputs_and_settings,
    inputs_of,
    kubeconfig_of,
    own_pins,
    pins_differ,
    refuse_uncopied,
)
from upgrader.fleet.job_process import pins_text
from upgrader.fleet.job_watch import JobWatch
from upgrader.fleet.jobs_executor import JobsExecutor, way_out
from upgrader.fleet.local_executor import LocalExecutor
from upgrader.fleet.model import Fleet, FleetCluster
from upgrader.fleet.open_runs import refuse_open_runs
from upgrader.fleet.plans import FleetPlan, NoRoom, without_room
from upgrader.fleet.saved_plans import FleetBinding, SavedFleetPlan, save_fleet_plan
from upgrader.fleet.soak_gates import refuse_missing_gates
from upgrader.fleet.state import CampaignState, ClusterState
from upgrader.model.first_few import first_few
from upgrader.model.redaction.known_secrets import KNOWN

__all__ = [
    "FleetStatus",
    "PlanOrigin",
    "approve",
    "approve_changes",
    "approved_kubeconfigs",
    "begun_fleet",
    "clusters_without_room",
    "fleet_status",
    "jobs_gone",
    "newest_state",
    "open_campaign",
    "pause",
    "plan_command",
    "plan_origin",
    "planned_inputs",
    "planning_kubeconfig",
    "proposed_fleet",
    "refuse_unfinished",
    "retry",
    "save_plan",
    "skip",
    "unpause",
]

_HUB_SECONDS = 10.0
"""Of each request to the management cluster."""
_OVERRIDES = ("UPGRADER_KUBECONFIG", "UPGRADER_CONTEXT")
_STATUS = "upgrader fleet status"
_RUNNING = (
    "is being upgraded",
    f"Wait for the end of its run. If it hangs, end the process that `{_STATUS}` names; the run is then resumed.",
)


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
    changed: str = ""
    """`FILE:LINE:`, and that it isn't what the campaign was begun with; "" where nothing is."""


def proposed_fleet(folder: Path) -> Fleet:
    """The fleet of a folder, as a campaign would begin it. Raises UsageError, and ConfigError with file and line."""
    _refuse_overrides()
    return read_fleet(folder, system_clock().now())


def newest_state(folder: Path) -> CampaignState:
    """How far the newest campaign is, without a look at its clusters; empty where there is none. Raises UsageError."""
    campaign = newest_campaign(folder)
    return campaign.state() if campaign else CampaignState()


def approved_kubeconfigs(folder: Path, fleet: Fleet) -> Mapping[Path, str]:
    """What the newest campaign has pinned of each cluster's kubeconfig, by the cluster's folder. Raises UsageError."""
    known = newest_state(folder).clusters
    digests = {each.folder: known[each.name].digest for each in fleet.clusters if each.name in known}
    return {place: Inputs.parse(digest).kubeconfig for place, digest in digests.items()}


@contextmanager
def planning_kubeconfig(folder: Path, fleet: Fleet, approved: Mapping[Path, str] | None) -> Iterator[Path]:
    """A copy of a cluster folder's kubeconfig, with which the cluster is planned. `approved` is as of
    `approved_kubeconfigs`; None: all are.

    Raises UsageError, also for a folder that no campaign could run, for a command that is run for credentials and isn't
    approved, and for another cluster than the inventory's; and ApiError if that isn't known.
    """
    cluster = next(each for each in fleet.clusters if each.folder == folder)
    refuse_missing_gates(refuse_uncopied(folder), fleet.stage_of[cluster.name].soak_gates)
    used = kubeconfig_of(folder, fleet.commands, os.environ)
    if used.command and approved is not None and approved.get(folder) != used.pinned:
        raise UsageError(
            f"its kubeconfig would run a command that no campaign has approved: {used.command}; to allow it: "
            "upgrader fleet plan --allow-exec"
        )
    with private_kubeconfig(used) as path:
        if other := other_cluster(ask_cluster(path), cluster):
            raise UsageError(other)
        yield path


def planned_inputs(folder: Path, fleet: Fleet, cluster: FleetCluster) -> Inputs:
    """The inputs of a cluster. Raises UsageError where they can't be read: `fleet run` would refuse them too."""
    with KNOWN.apart():
        try:
            return inputs_of(folder, cluster.folder, fleet.commands, os.environ)
        except UsageError as error:
            error.message = KNOWN.mask(error.message)
            raise


@dataclass(frozen=True)
class PlanOrigin:
    """What a fleet is planned from beside its clusters, read before that: planning takes long."""

    pins: Pins
    files: Mapping[str, bytes]
    """The `fleet_files`."""


def plan_origin(folder: Path) -> PlanOrigin:
    """As it is now. Raises UsageError."""
    return PlanOrigin(own_pins(), fleet_files(folder))


def save_plan(path: Path, fleet: Fleet, planned: FleetPlan, origin: PlanOrigin) -> SavedFleetPlan:
    """Write the plan of a fleet, as `save_fleet_plan`."""
    return save_fleet_plan(path, fleet, planned, origin.pins, origin.files, system_clock().now())


def clusters_without_room(folder: Path, fleet: Fleet, planned: FleetPlan) -> tuple[NoRoom, ...]:
    """As `without_room`, now, by what the newest campaign has measured, if its runs were of the same kind. Raises
    UsageError.
    """
    campaign = newest_campaign(folder)
    alike = campaign is not None and begun_fleet(folder, campaign).goal.kind is fleet.goal.kind
    state = campaign.state() if campaign is not None and alike else CampaignState()
    return without_room(fleet, planned, state, system_clock().now())


def begun_fleet(folder: Path, campaign: Campaign) -> Fleet:
    """The fleet as a campaign was begun with it, whatever the folder's files say by now. As `proposed_fleet`."""
    _refuse_overrides()
    return read_fleet(folder, system_clock().now(), begun=campaign.folder)


def _refuse_overrides() -> None:
    for name in _OVERRIDES:
        if os.environ.get(name):
            raise UsageError(
                f"{name} (or --kubeconfig or --context) is set, and would be used for every cluster of the fleet",
                remedy=f"Unset {name}; each cluster's folder names its kubeconfig.",
            )


def fleet_status(folder: Path) -> FleetStatus:
    """How far the newest campaign is. Needs no cluster. Raises UsageError."""
    campaign = newest_campaign(folder)
    if campaign is None:
        fleet = proposed_fleet(folder)
        state = CampaignState(clusters={each.name: ClusterState(each.name) for each in fleet.clusters})
        return FleetStatus(fleet, None, state, decide(fleet, state, system_clock().now()), folder_holder(folder))
    fleet, state, changed = begun_fleet(folder, campaign), campaign.state(), campaign.changed_files(folder)
    decision = decide(fleet, state, system_clock().now(), Held(changed)) if state.open else Decision(done=True)
    return FleetStatus(fleet, campaign, state, decision, folder_holder(folder), changed)


@contextmanager
def open_campaign(
    folder: Path,
    confirm: Callable[[Fleet, bool], None],
    *,
    anew: bool = False,
    begins: bool = True,
    executor: ExecutorName | None = None,
    plan: SavedFleetPlan | None = None,
) -> Iterator[Coordinator]:
    """Begin a campaign (unless none `begins`), or go on with the newest one, which has ended if nothing is left to do
    (`Coordinator.over`).

    `confirm` gets the fleet before a new campaign begins, and whether another one is left open; it raises where it
    must not. `executor` is where runs are carried out, None: as the campaign has it, which can't change; a new one has
    `local`. `plan` is the saved one that a new campaign keeps to, or the open one was begun with.

    Raises Locked where another coordinator runs, Blocked for a campaign that was begun with other files or another
    upgrader, for a new one while a cluster has a run without an end and for one that differs from its plan, and
    UsageError for a folder that is wrong.
    """
    clock = system_clock()
    if newest_campaign(folder) is None:
        refuse_other_folder(folder)  # before the lock, whose file would be left there
    with folder_lock(folder, lock_holder(), clock, status=_STATUS), ExitStack() as stack:
        campaign = newest_campaign(folder)
        state = campaign.state() if campaign else CampaignState()
        another = plan is not None and plan.digest != state.plan
        if campaign and not anew and (state.open or not (another or campaign.changed_files(folder))):
            if state.open and another:
                raise UsageError(
                    f"campaign {campaign.name} is in progress, and was not started with this plan",
                    remedy="Continue it without --plan, or start a new campaign with it: add --new",
                )
            if state.open:
                _refuse_changes(campaign, state, folder)
            if executor not in (None, state.executor):
                raise UsageError(
                    f"campaign {campaign.name} was started with --executor {state.executor}, and can't change it",
                    remedy="Omit --executor, or start a new campaign with it: upgrader fleet run --new",
                )
            fleet = begun_fleet(folder, campaign)
            carried_out, hub = _executor(stack, state.executor, fleet, "" if state.jobs_gone else state.hub)
            journal = campaign.reopen(clock)
            if state.open:
                campaign.take_requests(journal, campaign.journaled())  # first: it may be that the last hub is gone
                journal.emit(CampaignContinued(own_name(), hub))
        elif not begins:
            raise UsageError(
                f"{folder} has no campaign in progress, and --continue starts none",
                remedy="Start one: upgrader fleet run",
            )
        else:
            files = fleet_files(folder)
            fleet = proposed_fleet(folder)
            if plan is not None:
                plan.refuse_expired(clock.now())
            running = not state.jobs_gone and any(each.phase == "running" for each in state.clusters.values())
            if campaign and running:
                before, _ = _executor(stack, state.executor, begun_fleet(folder, campaign), state.hub)
                _refuse_running(campaign, state, before)
            chosen = executor or "local"
            carried_out, hub = _executor(stack, chosen, fleet)
            refuse_open_runs(fleet, begun_fleet(folder, campaign) if campaign else None, state, partial(_works, folder))
            inputs = tuple(ClusterInputs(each.name, str(_inputs(folder, fleet, each))) for each in fleet.clusters)
            pins = own_pins()
            if plan is not None:
                plan.refuse_changes(FleetBinding.of(pins, files, inputs))
                inputs = tuple(replace(each, changes=plan.changes[each.cluster]) for each in inputs)
            confirm(fleet, state.open)
            name = f"{clock.now():%Y%m%dT%H%M%S}-fleet-{fleet.goal.place}"
            started = CampaignStarted(name, fleet.target, pins, inputs, own_name(), executor=chosen, hub=hub)
            started = replace(started, plan=plan.digest) if plan else started
            campaign, journal = begin(folder, started, files, clock)
        try:
            _remove_left(folder, campaign)
            fetch = carried_out.fetch if isinstance(carried_out, JobsExecutor) else at_home
            questions = Questions(folder, fleet.commands, ask_cluster, os.environ, clock, fetch)
            yield Coordinator(folder, fleet, campaign, journal, carried_out, clock, questions, own_pins)
        finally:
            journal.close()


def _works(folder: Path, fleet: Fleet, cluster: FleetCluster) -> str:
    """Why a process may be changing a cluster, as `at_work`; no command is run for it that no campaign has approved."""
    with KNOWN.apart():
        try:
            with planning_kubeconfig(cluster.folder, fleet, approved_kubeconfigs(folder, fleet)) as kubeconfig:
                return KNOWN.mask(at_work(kubeconfig, cluster.folder))
        except UpgraderError as error:
            return KNOWN.mask(unknown(error))


def _executor(stack: ExitStack, name: ExecutorName, fleet: Fleet, hub: str = "") -> tuple[Executor, str]:
    """Where a campaign's runs are carried out, with the UID of the management cluster, "" without one; `hub` is that of
    a campaign whose Jobs are there. Raises UsageError, and Blocked for a management cluster of the fleet, or another
    one than the campaign's.
    """
    if name == "local":
        return LocalExecutor(environ=os.environ), ""
    try:
        return _jobs(stack, fleet, hub)
    except UsageError as error:
        error.remedy = f"{error.remedy} {way_out(hub)}".strip() if hub else error.remedy
        raise


def _jobs(stack: ExitStack, fleet: Fleet, hub: str) -> tuple[JobsExecutor, str]:
    if fleet.jobs is None:
        raise UsageError(
            "--executor jobs needs a management cluster, and fleet.yaml names none",
            remedy="Set `spec.jobs` in fleet.yaml: image and kubeconfig; docs/fleet.md has an example.",
        )
    if not fleet.jobs.kubeconfig.is_file():
        raise UsageError(
            f"{fleet.jobs.kubeconfig}, the kubeconfig of the management cluster, is not a file",
            remedy="Put it there, or name it in fleet.yaml (jobs.kubeconfig).",
        )
    kube, clock = stack.enter_context(open_api(fleet.jobs.kubeconfig, _HUB_SECONDS)), system_clock()
    watch = JobWatch(kube, clock)
    stack.callback(watch.close)
    jobs = JobsExecutor(kube, watch, fleet.jobs, fleet, pins_text(), clock)
    return jobs, jobs.check(hub)


def _remove_left(folder: Path, campaign: Campaign) -> None:
    """Remove the credentials and copies that runs have worked with, unless one may be in progress: a coordinator that
    was killed could not. Raises UsageError.
    """
    remove_left_kubeconfigs()
    running = {each.name for each in campaign.journaled().clusters.values() if each.phase == "running"}
    try:
        for each in (folder / "runs").glob("*-fleet-*/clusters/*/"):
            if each.parent.parent != campaign.folder or each.name not in running:
                (each / KUBECONFIG).unlink(missing_ok=True)
                remove_copies(each / INPUTS)
    except OSError as error:
        raise UsageError(
            f"{error.filename} can't be removed: {error.strerror}. It may contain credentials of a run that has ended",
            remedy="Remove it by hand, then run the same command again.",
        ) from error


def _inputs(folder: Path, fleet: Fleet, cluster: FleetCluster) -> Inputs:
    """What is approved of a cluster now. Raises UsageError that names it."""
    with KNOWN.apart():
        try:
            inputs, settings = inputs_and_settings(folder, cluster.folder, fleet.commands, os.environ)
            refuse_missing_gates(settings, fleet.stage_of[cluster.name].soak_gates)
            return inputs
        except UsageError as error:
            raise UsageError(
                KNOWN.mask(f"cluster {cluster.name} can't be approved: {error.message}"),
                remedy=KNOWN.mask(f"{error.remedy} Or name the cluster in `exclude`.".strip()),
            ) from error


def _refuse_changes(campaign: Campaign, state: CampaignState, folder: Path) -> None:
    anew = "Or start a new campaign with the current files: upgrader fleet run --new"
    if changed := campaign.changed_files(folder):
        raise Blocked(f"{changed} ({campaign.name}); nothing was started", remedy=f"Restore it. {anew}")
    if other := pins_differ(state.pins, own_pins()):
        raise Blocked(f"{other} ({campaign.name}); nothing was started", remedy=f"Use that upgrader. {anew}")


def _refuse_running(campaign: Campaign, state: CampaignState, executor: Executor) -> None:
    for each in state.clusters.values():
        if each.phase == "running" and executor.running(campaign.attempt(each.name, each.attempt)):
            raise Locked(
                f"cluster {each.name} is being upgraded by campaign {campaign.name}",
                remedy=f"Wait for it to end; `{_STATUS}` shows the campaign.",
            )


def refuse_unfinished(fleet: Fleet, decision: Decision, state: CampaignState) -> None:
    """Raise the error of a campaign that can't go on without a person, or has ended with clusters that failed within
    its limits; the worst failure decides its exit code.
    """
    failed = [each for each in state.clusters.values() if each.failed]
    if decision.done and not failed:
        return
    phases = {each.phase for each in failed}
    unknown = any(each.problem in ("unknown", "silent") for each in state.clusters.values())
    code = 5 if unknown or phases & {"broken", "interrupted"} else 4 if "rolled-back" in phases else 3
    if decision.done:
        names = {phase: first_few([each.name for each in failed if each.phase == phase]) for phase in sorted(phases)}
        raise CampaignStopped(
            f"campaign {state.campaign} is done, but {len(failed)} of {len(fleet.clusters)} clusters have failed: "
            + "; ".join(f"{phase}: {some}" for phase, some in names.items()),
            remedy="`upgrader fleet retry CLUSTER` and `upgrader fleet run` run them again; `upgrader fleet skip "
            "CLUSTER --reason TEXT` leaves them out.",
            exit_code=code,
        )
    reasons = dict.fromkeys([wait.reason for wait in decision.stages.values() if wait.person])
    text = decision.stop or "; ".join(reasons) or "it waits for an operator"
    how = (
        "`upgrader fleet resume` ends the pause"
        if state.paused is not None
        else f"`{_STATUS}` shows what to do for each cluster"
    )
    raise CampaignStopped(
        f"campaign {state.campaign} can't continue without an operator: {text}",
        remedy=f"{how}; then continue with `upgrader fleet run`."
        + (" `upgrader fleet plan` names clusters that would fail for the same cause." if failed else ""),
        exit_code=code,
    )


def approve(folder: Path, stage: str, reason: str) -> None:
    """Approve a stage. Raises UsageError for one that needs no approval."""
    campaign = _open(folder)
    fleet = begun_fleet(folder, campaign)
    waiting = [each.name for each in fleet.stages if each.approval]
    if stage not in waiting:
        raise UsageError(
            f"there is no stage {stage} that needs an approval",
            remedy=f"Stages that do: {', '.join(waiting) or 'none'}.",
        )
    _ask(campaign, StageApproved(stage, own_name(), reason))


def plan_command(fleet: Fleet, cluster: str, home: Path | None = None) -> str:
    """What shows an operator the plan of a cluster as the campaign would run it, whatever version its folder names, in
    the current folder or in `home`.
    """
    if fleet.goal.finalizes:
        return "upgrader fleet plan"
    return f"upgrader -C {typed(fleet.by_name[cluster].folder, home)} plan --to {fleet.target}"


def approve_changes(folder: Path, cluster: str, reason: str, digest: str) -> bool:
    """Approve a cluster's folder with this digest, as it was shown (`Inputs.shown`), and no other state of it; also
    once the campaign has ended, for a `retry`. Returns whether the cluster needs that.

    Raises UsageError, also where the folder has another one now, or none is given: the error has it.
    """
    campaign = _newest(folder)
    fleet = begun_fleet(folder, campaign)
    state = _known(campaign.state(), cluster)
    mine = fleet.by_name[cluster]
    inputs = _inputs(folder, fleet, mine)
    for other in fleet.clusters:
        if other is not mine and os.path.realpath(other.folder) == os.path.realpath(mine.folder):
            raise UsageError(
                f"clusters {cluster} and {other.name} have the same folder, {mine.folder.resolve()}",
                remedy="Give each cluster its own folder; otherwise they would share their runs.",
            )
    if digest != inputs.shown:
        said = f"has the digest {inputs.shown} now, and not {digest}" if digest else f"has the digest {inputs.shown}"
        # The run is no longer held to the saved plan, then.
        plan = f" and its new plan ({plan_command(fleet, cluster)})" if state.changes else ""
        raise UsageError(
            f"the folder of cluster {cluster} {said}; nothing was approved",
            remedy=f"Review {mine.folder}{plan}, then approve it: upgrader fleet approve --changes {cluster} "
            f"--digest {inputs.shown} --reason TEXT",
        )
    _ask(campaign, InputsApproved(cluster, str(inputs), own_name(), reason))
    return state.failed


def pause(folder: Path, reason: str) -> None:
    """Let no cluster begin; runs finish. Raises UsageError."""
    _ask(_open(folder), Paused(own_name(), reason))


def unpause(folder: Path) -> None:
    """Let clusters begin again. Raises UsageError for a campaign that isn't paused."""
    campaign = _open(folder)
    if campaign.state().paused is None:
        raise UsageError(f"campaign {campaign.name} isn't paused")
    _ask(campaign, Unpaused(own_name()))


def retry(folder: Path, cluster: str) -> str | None:
    """Run a cluster again that failed, was skipped or has a problem, with the same pins, also once the campaign has
    ended; or, if a gate has failed in its soak, only ask that again, and return its name, "" if it isn't known which
    one it is. Raises UsageError for any other.
    """
    campaign = _newest(folder)
    state = _known(campaign.state(), cluster)
    if changed := campaign.changed_files(folder):
        raise UsageError(
            f"{changed} ({campaign.name}); `retry` needs the files with which the campaign began",
            remedy="Restore the file, or start a new campaign with the current files: upgrader fleet run --new",
        )
    refusals = {
        "running": _RUNNING,
        "succeeded": (
            "has succeeded in this campaign",
            "During its soak, `upgrader fleet run` checks it again. To upgrade it again: upgrader fleet run --new",
        ),
    }
    again = state.phase == "succeeded" and state.gate_failed
    if again:
        del refusals["succeeded"]
    if not state.problem:
        refusals["waiting"] = (
            "waits for its first run",
            f"It starts automatically; `{_STATUS}` shows what it waits for.",
        )
    _refuse(state, "retried", refusals)
    _ask(campaign, RetryRequested(cluster, own_name()))
    return (state.gate or "") if again else None


def skip(folder: Path, cluster: str, reason: str) -> str:
    """Leave a cluster out until it is retried, also once the campaign has ended. Returns its run that has no end, ""
    for none. Raises UsageError for one that runs, or has succeeded and doesn't hold up its soak.
    """
    campaign = _newest(folder)
    state = _known(campaign.state(), cluster)
    if not state.may_be_skipped:
        refusals = {
            "running": _RUNNING,
            "succeeded": ("has succeeded", "Nothing is left to do for this cluster."),
            "skipped": (f"was already skipped: {state.reason}", f"To run it again: upgrader fleet retry {cluster}"),
        }
        _refuse(state, "skipped", refusals)
    _ask(campaign, ClusterSkipped(cluster, own_name(), reason))
    return state.run if state.unended else ""


def jobs_gone(folder: Path, hub: str, reason: str) -> None:
    """Have another management cluster take the place of the one with this UID, of which no Job runs any more, and none
    ever will. Raises UsageError for any other than the newest campaign's, and Locked while a coordinator uses it.
    """
    campaign = _newest(folder)
    state = campaign.state()
    if not state.hub:
        raise UsageError(f"campaign {campaign.name} has no Jobs: its runs are processes")
    if hub != state.hub:
        raise UsageError(
            f"the Jobs of campaign {campaign.name} are on the management cluster with the UID {state.hub}, not on "
            f"{hub}",
            remedy="Pass the UID of the lost management cluster; if another one is lost, nothing needs to be done.",
        )
    with folder_lock(folder, lock_holder(), system_clock(), status=_STATUS):
        _ask(campaign, JobsGone(hub, own_name(), reason))


def _refuse(state: ClusterState, what: str, refusals: Mapping[str, tuple[str, str]]) -> None:
    """Raise UsageError where there is one for the cluster's phase: why it can't be done, and what can."""
    if refusal := refusals.get(state.phase):
        why, remedy = refusal
        raise UsageError(f"cluster {state.name} can't be {what}: it {why}", remedy=remedy)


def _open(folder: Path) -> Campaign:
    campaign = _newest(folder)
    if not campaign.state().open:
        raise _no_campaign(folder)
    return campaign


def _newest(folder: Path) -> Campaign:
    campaign = newest_campaign(folder)
    if campaign is None:
        refuse_other_folder(folder)
        raise _no_campaign(folder)
    return campaign


def _no_campaign(folder: Path) -> UsageError:
    return UsageError(f"{folder} has no campaign in progress", remedy="Begin one: upgrader fleet run")


def _known(state: CampaignState, cluster: str) -> ClusterState:
    found = state.clusters.get(cluster)
    if found is None:
        raise UsageError(
            f"campaign {state.campaign} has no cluster {cluster}: when the campaign began, the inventory did not list "
            "the cluster, or fleet.yaml excluded it",
            remedy=f"Name one of its clusters: {first_few(list(state.clusters))}. To use the current inventory, start "
            "a new campaign: upgrader fleet run --new",
        )
    return found


def _ask(campaign: Campaign, request: Request) -> None:
    campaign.ask(request, system_clock())
