"""`upgrader plan`: what a run would change."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from upgrader.cli.wiring import open_session
from upgrader.errors import Inhibited
from upgrader.preflight.run_checks import inhibits
from upgrader.ui.plan import print_plan

__all__ = ["plan"]


@click.command()
@click.option(
    "--to", metavar="VERSION", help="Kubernetes version to go to (default: kubernetesVersion in upgrader.yaml)."
)
@click.option("--diff", is_flag=True, help="Show the diff of every object that changes.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON on standard output.")
@click.pass_obj
def plan(folder: Path, to: str | None, diff: bool, as_json: bool) -> None:
    """Show what `upgrader run` would change, and what speaks against it. Changes nothing.

    Exits with 3 when a check inhibits the run.
    """
    with open_session(folder, to) as session:
        observed = session.observe()
        planned = session.plan(observed)
        findings = session.preflight(observed, planned)
    if as_json:
        steps = [{"name": step.name, **_as_json(step)} for step in planned.steps]
        click.echo(
            json.dumps(
                {
                    "current": str(planned.current),
                    "target": str(planned.target),
                    "digest": planned.digest,
                    "steps": steps,
                    "findings": [asdict(finding) for finding in findings],
                },
                indent=2,
            )
        )
    else:
        print_plan(planned, findings, diff=diff)
    if inhibits(findings):
        raise Inhibited("a run would be refused: see the findings marked as error or unknown")


def _as_json(step: object) -> dict[str, object]:
    from upgrader.model.plan import PlannedRelease

    if not isinstance(step, PlannedRelease):
        return {"action": "playbook"}
    changes = [asdict(change) for change in step.changes]
    return {"action": step.action, "summary": step.summary, "changes": changes}
