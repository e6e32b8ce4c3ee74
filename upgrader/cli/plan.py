"""`upgrader plan`: what a run would change."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from upgrader.app.upgrade import CheckedPlan, plan_upgrade
from upgrader.cli.command_line import TARGET
from upgrader.errors import Inhibited
from upgrader.model.plan import PlannedStep
from upgrader.model.version import KubernetesVersion
from upgrader.ui.plan import print_plan

__all__ = ["plan"]


@click.command()
@TARGET
@click.option("--diff", is_flag=True, help="Show the diff of every object that changes.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON on standard output.")
@click.pass_obj
def plan(folder: Path, target: KubernetesVersion | None, diff: bool, as_json: bool) -> None:
    """Show what `upgrader run` would change, and what blocks it. Changes nothing.

    Exits with 3 when a check blocks the run.
    """
    checked = plan_upgrade(folder, target)
    if as_json:
        click.echo(json.dumps(_as_json(checked), indent=2))
    else:
        print_plan(checked.plan, checked.findings, diff=diff)
    if checked.inhibited:
        raise Inhibited("a check blocks the run: fix the checks marked error or unknown")


def _as_json(checked: CheckedPlan) -> dict[str, object]:
    planned = checked.plan
    return {
        "current": str(planned.current),
        "target": str(planned.target),
        "digest": planned.digest,
        "steps": [_step(step) for step in planned.steps],
        "findings": [asdict(finding) for finding in checked.findings],
    }


def _step(step: PlannedStep) -> dict[str, object]:
    shown: dict[str, object] = {"name": step.name, "action": step.action}
    if step.action != "playbook":
        shown |= {"summary": step.summary, "changes": [asdict(change) for change in step.changes]}
    return shown
