"""`upgrader plan`: what a run would change."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from upgrader.app.offline_plan import UNKNOWN, OfflinePlan, plan_offline
from upgrader.app.upgrade import CheckedPlan, plan_upgrade
from upgrader.cli.command_line import TARGET
from upgrader.errors import UsageError
from upgrader.model.plan import PlannedStep
from upgrader.model.version import KubernetesVersion
from upgrader.ui.offline_plan import print_offline_plan
from upgrader.ui.plan import print_plan

__all__ = ["CHANGES", "plan"]

CHANGES = 7
"""The exit code of `--detailed-exitcode` where there is something to do."""


@click.command()
@TARGET
@click.option("--diff", is_flag=True, help="Show the diff of every object that changes.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON on standard output.")
@click.option(
    "--offline",
    is_flag=True,
    help="Read only the folder, and run nothing of it: no credentials are needed, so it is safe for merge requests.",
)
@click.option(
    "--against",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="With --offline: show what changes of another cluster folder, such as the target branch's.",
)
@click.option(
    "--detailed-exitcode", "detailed", is_flag=True, help=f"Exit with {CHANGES} where a run would change something."
)
@click.pass_context
def plan(
    context: click.Context,
    target: KubernetesVersion | None,
    diff: bool,
    as_json: bool,
    offline: bool,
    against: Path | None,
    detailed: bool,
) -> None:
    """Show what `upgrader run` would change, and what blocks it. Changes nothing.

    Exits with 3 when a check blocks the run.
    """
    folder: Path = context.obj
    if offline:
        if detailed:
            raise UsageError("--detailed-exitcode needs the cluster: what a run would change isn't in the folder")
        planned = plan_offline(folder, target, against)
        if as_json:
            click.echo(json.dumps(_offline_as_json(planned), indent=2))
        else:
            print_offline_plan(planned, UNKNOWN, diff=diff)
        return
    if against is not None:
        raise UsageError("--against compares folders", remedy="Add --offline.")
    checked = plan_upgrade(folder, target)
    if as_json:
        click.echo(json.dumps(_as_json(checked), indent=2))
    else:
        print_plan(checked.plan, checked.findings, diff=diff)
    checked.refuse_if_blocked()
    if detailed and any(step.action != "unchanged" for step in checked.plan.steps):
        context.exit(CHANGES)


def _as_json(checked: CheckedPlan) -> dict[str, object]:
    planned = checked.plan
    return {
        "current": str(planned.current),
        "target": str(planned.target),
        "digest": planned.digest,
        "steps": [_step(step) for step in planned.steps],
        "findings": [asdict(finding) for finding in checked.findings],
    }


def _offline_as_json(planned: OfflinePlan) -> dict[str, object]:
    return {
        "offline": True,
        "before": str(planned.before) if planned.before else None,
        "target": str(planned.target),
        "steps": [asdict(step) for step in planned.steps],
        "removed": planned.removed,
        "hosts": planned.hosts,
        "unknown": UNKNOWN,
    }


def _step(step: PlannedStep) -> dict[str, object]:
    shown: dict[str, object] = {"name": step.name, "action": step.action}
    if step.action != "playbook":
        shown |= {"summary": step.summary, "changes": [asdict(change) for change in step.changes]}
    return shown
