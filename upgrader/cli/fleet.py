"""`upgrader fleet`: many clusters in one campaign."""

from __future__ import annotations

import json
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upgrader.cli.command_groups import GroupOfWholeLines
from upgrader.cli.command_line import VERSION, YES, front_end
from upgrader.cli.notices import say
from upgrader.cli.output import TEXT_OR_JSON, output_option
from upgrader.cli.questions import confirm, write_files
from upgrader.cli.report import show_page
from upgrader.errors import Blocked, Interrupted, UpgraderError, UsageError

if TYPE_CHECKING:
    from upgrader.fleet.decide import Decision
    from upgrader.fleet.events import ExecutorName
    from upgrader.fleet.model import Fleet
    from upgrader.fleet.pipelines import PipelineForm
    from upgrader.fleet.state import CampaignState
    from upgrader.model.version import KubernetesVersion

__all__ = ["fleet"]

_CLUSTER = click.argument("cluster")
_REASON = click.option("--reason", metavar="TEXT", required=True, help="Reason, for the campaign's journal.")


@click.group(cls=GroupOfWholeLines)
def fleet() -> None:
    """Upgrade many clusters in stages. Here, `-C DIR` is the folder of fleet.yaml and fleet-inventory.yaml."""


@fleet.command()
@click.option("--to", "target", metavar="VERSION", type=VERSION, required=True, help="The campaign's target.")
@click.option(
    "--exec",
    "commands",
    metavar="COMMAND",
    multiple=True,
    help="A command that kubeconfigs may run for credentials, such as aws, with any arguments; may be repeated.",
)
@YES
@click.pass_obj
def init(folder: Path, target: KubernetesVersion, commands: tuple[str, ...], yes: bool) -> None:
    """Write fleet.yaml and fleet-inventory.yaml for the cluster folders in `clusters/`.

    Asks each cluster for its UID. The first cluster is the canary; the others follow after an approval.
    """
    shown = front_end()

    from upgrader.fleet.new_folder import propose_fleet

    proposed = propose_fleet(folder, target, commands, shown.doing)
    write_files(proposed.texts, proposed.write, yes=yes)
    _say_next(folder, "Next: edit labels and stages, then upgrader fleet plan")


@fleet.command()
@output_option("text", "markdown")
@click.option(
    "--allow-exec",
    is_flag=True,
    help="Also run credential plugins (`exec` in a kubeconfig) whose arguments no campaign has approved.",
)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save the plans for `upgrader fleet run --plan FILE`, valid for 24 hours; the file has no secret values.",
)
@click.pass_obj
def plan(folder: Path, output: str, allow_exec: bool, out: Path | None) -> None:
    """Plan every cluster, and group clusters with equal plans. Changes nothing.

    Also shows what each later stage tries for the first time, because no cluster of an earlier stage has it: labels,
    findings, steps, images; the number of nodes, their operating systems, architectures, container runtimes and
    kubelets; CNI plugins and modes of kube-proxy. Names clusters without a rehearsal, and windows that are too short
    for runs that take as long as earlier ones. During a campaign, names waiting clusters that would fail for the same
    cause as others did.

    Exit codes: 0 every cluster can be upgraded, 2 wrong usage or files, 3 a check blocks a cluster, or a cluster can't
    be planned.
    """
    shown = front_end()

    from upgrader.app.finalize import plan_finalize
    from upgrader.app.upgrade import plan_upgrade
    from upgrader.cli.ui.as_typed import program
    from upgrader.cli.ui.fleet import (
        print_classes,
        print_fleet,
        print_new_traits,
        print_shared,
        print_unrehearsed,
        print_without_room,
    )
    from upgrader.cli.ui.fleet_markdown import fleet_plan_markdown
    from upgrader.fleet.clusters import ask_traits
    from upgrader.fleet.plans import NOTHING, PlannedCluster, plan_fleet, shared_causes
    from upgrader.fleet.saved_plans import refuse_plan_file
    from upgrader.fleet.use_cases import (
        approved_kubeconfigs,
        clusters_without_room,
        newest_state,
        plan_origin,
        planned_inputs,
        planning_kubeconfig,
        proposed_fleet,
        save_plan,
    )

    origin = plan_origin(folder) if out is not None else None
    proposed = proposed_fleet(folder)
    if out is not None:
        refuse_plan_file(out, proposed)
    approved = None if allow_exec else approved_kubeconfigs(folder, proposed)

    def planned_one(each: Path, target: KubernetesVersion) -> PlannedCluster:
        with planning_kubeconfig(each, proposed, approved) as kubeconfig:
            if proposed.goal.finalizes:
                checked = plan_finalize(each, target, kubeconfig)
            else:
                checked = plan_upgrade(each, target, kubeconfig=kubeconfig)
            changes = checked.plan.changes_digest if checked else NOTHING
            return PlannedCluster(checked.document if checked else None, ask_traits(kubeconfig), changes)

    planned = plan_fleet(proposed, planned_one, shown.doing, partial(planned_inputs, folder, proposed))
    shown.doing("")
    without_room = clusters_without_room(folder, proposed, planned)
    shared = shared_causes(planned, newest_state(folder))
    if output == "markdown":
        click.echo(fleet_plan_markdown(proposed, planned, without_room, shared))
    else:
        print_fleet(proposed, sys.stdout)
        print_classes(planned.classes, sys.stdout)
        print_new_traits(planned.new, sys.stdout)
        print_unrehearsed(planned.unrehearsed, proposed, sys.stdout)
        print_without_room(without_room, sys.stdout)
        print_shared(shared, sys.stdout)
    if out is not None and origin is not None:
        saved = save_plan(out, proposed, planned, origin)
        say(f"Plan saved: {out}, digest {saved.digest}, valid until {saved.expires:%Y-%m-%d %H:%M}Z.")
        say(f"To start it: {program(folder)} fleet run --plan {shlex.quote(str(out))}")
    blocked = [name for each in planned.classes if each.blocked for name in each.clusters]
    if blocked:
        from upgrader.model.first_few import first_few

        raise Blocked(
            f"{len(blocked)} of {len(proposed.clusters)} clusters can't be upgraded: {first_few(blocked)}",
            remedy="Fix what is shown above, or name them in `exclude`.",
        )


@fleet.command()
@click.option("--new", "anew", is_flag=True, help="Start a new campaign, even if the newest one isn't done.")
@click.option("--continue", "only_continue", is_flag=True, help="Continue the newest campaign; start no new one.")
@click.option(
    "--executor",
    type=click.Choice(["local", "jobs"]),
    help="Where a new campaign starts its runs: as processes on this machine (`local`, the default), or as Jobs on "
    "the management cluster that fleet.yaml names (`jobs`).",
)
@click.option(
    "--plan",
    "plan_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Start a campaign with the plan that `upgrader fleet plan --out FILE` saved, or refuse if anything has "
    "changed. A cluster whose plan has changed by the time of its run is blocked.",
)
@YES
@click.pass_obj
def run(
    folder: Path,
    anew: bool,
    only_continue: bool,
    executor: ExecutorName | None,
    plan_file: Path | None,
    yes: bool,
) -> None:
    """Start a campaign, or continue the newest one.

    Each cluster is upgraded by `upgrader run`, which continues if this command is interrupted or killed: run the same
    command again. Ends when all stages are done, or when nothing can continue without an operator.

    Exit codes: 0 done, and no cluster has failed, 2 wrong usage or files, 3 waits for an operator, clusters are
    blocked, or a saved plan is outdated, 4 clusters were rolled back, 5 a cluster requires manual action, 6 another
    `fleet run` is active, 130 interrupted. Failures within `maxFailures` don't stop the campaign, but determine the
    exit code.
    """
    if anew and only_continue:
        raise UsageError("--new and --continue can't be combined", remedy="Use only one of them.")
    if plan_file is not None and only_continue:
        raise UsageError("--plan and --continue can't be combined: a plan starts a campaign")
    shown = front_end()  # before the imports, which take seconds

    from upgrader.cli.ui.as_typed import program
    from upgrader.cli.ui.fleet import print_fleet
    from upgrader.cli.ui.fleet_display import campaign_display
    from upgrader.fleet.reports.publishing import publishing
    from upgrader.fleet.saved_plans import read_fleet_plan
    from upgrader.fleet.use_cases import open_campaign, refuse_unfinished
    from upgrader.model.first_few import first_few
    from upgrader.model.redaction.markdown import one_line

    saved = read_fleet_plan(plan_file) if plan_file is not None else None

    def ask(proposed: Fleet, another: bool) -> None:
        shown.doing("")
        print_fleet(proposed)
        if saved is not None:
            say(one_line(f"With the plan {saved.path}, digest {saved.digest}."))
        if another:
            say("The newest campaign isn't done, and stays as it is.")
        confirm("Start this campaign?", yes=yes)

    def show(decision: Decision, state: CampaignState) -> None:
        display.look(decision, state)
        publisher.look(decision, state)

    with (
        open_campaign(folder, ask, anew=anew, begins=not only_continue, executor=executor, plan=saved) as coordinator,
        campaign_display(coordinator, sys.stderr, say, program(folder)) as display,
        publishing(coordinator, display.say) as publisher,
    ):
        shown.doing("")
        if over := coordinator.over:
            say("The newest campaign is done, and no file has changed since: nothing to do (--new starts another one).")
        try:
            decision, state = coordinator.look() if over else coordinator.run(show)
        except KeyboardInterrupt as stopped:
            remedy = "Runs in progress continue without it. To continue the campaign: upgrader fleet run"
            raise Interrupted("interrupted", remedy=remedy) from stopped
    refuse_unfinished(coordinator.fleet, decision, state)
    if not over:
        left_out = first_few([each.name for each in state.clusters.values() if each.phase == "skipped"])
        say(f"Campaign {state.campaign} is done." + (f" Left out: {left_out}." if left_out else ""))


@fleet.command()
@TEXT_OR_JSON
@click.pass_obj
def status(folder: Path, output: str) -> None:
    """Show the campaign's progress: what each cluster waits for, and until when. Reads only the folder."""
    from upgrader.cli.ui.as_typed import program
    from upgrader.cli.ui.fleet import print_fleet_status, status_json
    from upgrader.fleet.use_cases import fleet_status

    found = fleet_status(folder)
    if output == "json":
        click.echo(json.dumps(status_json(found), indent=2))
    else:
        print_fleet_status(found, sys.stdout, program(folder))


@fleet.command()
@output_option(
    "calendar", default=False, help_text="Print the calendar (iCalendar) on standard output, and write no file."
)
@click.option("--open", "opened", is_flag=True, help="Open the page in a browser.")
@click.pass_obj
def report(folder: Path, output: str | None, opened: bool) -> None:
    """Write the newest campaign's page (fleet.html) and calendar (fleet.ics) to runs/CAMPAIGN, and print its path.

    `fleet run` updates both whenever something changes. The page shows stages, clusters and windows over time, what
    each cluster waits for, and failures by cause. The calendar shows the next events. Reads only the folder.
    """
    from upgrader.fleet.reports.files import fleet_calendar, fleet_report

    if output is not None:
        if opened:
            raise UsageError("--open and -o can't be combined", remedy="Use only one of them.")
        click.echo(fleet_calendar(folder), nl=False)
        return
    show_page(fleet_report(folder), opened=opened)


@fleet.command()
@click.argument("name", metavar="STAGE|CLUSTER")
@click.option("--changes", is_flag=True, help="Approve the changed folder of a cluster.")
@click.option(
    "--digest", metavar="DIGEST", default="", help="With --changes: the digest of the folder that you have reviewed."
)
@_REASON
@click.pass_obj
def approve(folder: Path, name: str, changes: bool, digest: str, reason: str) -> None:
    """Approve a stage; or, with --changes, a cluster folder that was edited during the campaign.

    Without --digest, --changes only prints the folder's digest, and approves nothing.
    """
    from upgrader.fleet.use_cases import approve, approve_changes

    again = False
    if changes:
        again = approve_changes(folder, name, reason, digest)
    elif digest:
        raise UsageError("--digest can only be combined with --changes")
    else:
        approve(folder, name, reason)
    _refresh(folder)
    todo = f"Next: upgrader fleet retry {name}" if again else "If `upgrader fleet run` isn't active, start it."
    _say_next(folder, f"Approved: {name}. {todo}")


@fleet.command()
@click.option("--reason", metavar="TEXT", default="", help="Reason, for the campaign's journal.")
@click.pass_obj
def pause(folder: Path, reason: str) -> None:
    """Pause the campaign: start no further run. Runs in progress finish; then `upgrader fleet run` ends.

    To continue: upgrader fleet resume, then upgrader fleet run.
    """
    from upgrader.fleet.use_cases import pause

    pause(folder, reason)
    _refresh(folder)
    _say_next(folder, "Paused: no further run starts. To continue: upgrader fleet resume, then upgrader fleet run")


@fleet.command()
@click.pass_obj
def resume(folder: Path) -> None:
    """Resume a paused campaign."""
    from upgrader.fleet.use_cases import unpause

    unpause(folder)
    _refresh(folder)
    _say_next(folder, "Resumed. If `upgrader fleet run` isn't active, start it.")


@fleet.command()
@_CLUSTER
@click.pass_obj
def retry(folder: Path, cluster: str) -> None:
    """Run a cluster again that failed, was skipped or is unreachable, with the same version and charts.

    If a gate has failed in the cluster's soak, nothing is run: the gate is checked again.
    """
    from upgrader.fleet.use_cases import retry

    gate = retry(folder, cluster)
    _refresh(folder)
    asked = f"Gate {gate} of {cluster}" if gate else f"The gates of {cluster}"
    what = f"{cluster} will be run again" if gate is None else f"{asked} will be checked again"
    _say_next(folder, f"{what}. If `upgrader fleet run` isn't active, start it.")


@fleet.command()
@_CLUSTER
@_REASON
@click.pass_obj
def skip(folder: Path, cluster: str, reason: str) -> None:
    """Skip a cluster until it is retried. It stays listed."""
    from upgrader.fleet.use_cases import skip

    run = skip(folder, cluster, reason)
    _refresh(folder)
    _say_next(folder, f"{cluster} is skipped. To run it later: upgrader fleet retry {cluster}")
    if run:
        say(f"Its run {run} has not ended: until then, it blocks other domains and counts for `maxConcurrency`.")


@fleet.command()
@click.argument("form", type=click.Choice(["github", "gitlab", "argo"]))
@click.pass_obj
def render(folder: Path, form: PipelineForm) -> None:
    """Print the campaign as a pipeline that GitHub Actions, GitLab CI or Argo Workflows runs.

    It has the stages, batches of `maxConcurrency` clusters, approvals, the time of soaks, and failure domains. It ends
    after the batch in which a cluster fails, and has no other rule of a campaign: `upgrader fleet run` has them all.
    """
    from upgrader.fleet.pipelines import left_out, pipeline
    from upgrader.fleet.use_cases import proposed_fleet

    proposed = proposed_fleet(folder)
    click.echo(pipeline(proposed, form, folder), nl=False)
    say(f"Not in the pipeline: {', '.join(left_out(proposed))}.")


@fleet.command("jobs-gone")
@click.argument("uid")
@_REASON
@click.pass_obj
def declare_jobs_gone(folder: Path, uid: str, reason: str) -> None:
    """Declare that the management cluster with this UID is permanently gone, with all of its Jobs.

    Use it only if its nodes are off or were deleted: pods keep running without an API server. UID is the UID of the
    cluster's namespace kube-system, which `fleet run` shows. The campaign then continues with the management cluster in
    jobs.kubeconfig, and resumes runs that have not ended.
    """
    from upgrader.fleet.use_cases import jobs_gone

    jobs_gone(folder, uid, reason)
    _refresh(folder)
    _say_next(folder, "Continue the campaign with another management cluster: upgrader fleet run")


@fleet.command(hidden=True)
@click.option("--chunks", type=click.Path(path_type=Path), required=True, help="Folder of the mounted chunks.")
@click.option("--folder", "own", type=click.Path(path_type=Path), required=True, help="The cluster folder.")
@click.option("--pins", required=True, help="The version and the digests that this upgrader must have.")
@click.argument("arguments", nargs=-1, required=True)
def job(chunks: Path, own: Path, pins: str, arguments: tuple[str, ...]) -> None:
    """In the container of a Job of a campaign: unpack its inputs, and run `upgrader ARGUMENTS` with them."""
    from upgrader.fleet.end_signals import end_signals

    with end_signals() as signals:  # before the imports, which take seconds
        from upgrader.fleet.job_objects import POD_COPIES, TERMINATION
        from upgrader.fleet.job_process import run_in_job

        places = (chunks, own, Path(POD_COPIES), Path(TERMINATION))
        sys.exit(run_in_job(*places, pins, arguments, output=sys.stdout, signals=signals))


def _say_next(folder: Path, text: str) -> None:
    """Say what to do next, with commands that can be copied."""
    from upgrader.cli.ui.as_typed import with_folder

    say(with_folder(text, ["fleet"], folder))


def _refresh(folder: Path) -> None:
    """Have the page show what was asked for; that it can't be written undoes none of it."""
    from upgrader.fleet.reports.files import refresh

    try:
        refresh(folder)
    except UpgraderError as error:
        say(f"The campaign's page is not up to date: {error.message}")
    except Exception as error:  # noqa: BLE001  # what was asked for is done, whatever odd file is in the way of the page
        say(f"The campaign's page is not up to date: {type(error).__name__}: {error}")
