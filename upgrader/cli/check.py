"""`upgrader check`: what speaks against an upgrade."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import click
import yaml

from upgrader.app.upgrade import CheckedPlan, check_upgrade
from upgrader.cli.command_line import REASON, SKIP, TARGET, mention_needless
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.skipping import Skips
from upgrader.ui.findings import print_findings

__all__ = ["check"]


@click.command()
@TARGET
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="What is printed on standard output.",
)
@SKIP
@REASON
@click.pass_obj
def check(
    folder: Path,
    target: KubernetesVersion | None,
    output: Literal["table", "json", "yaml"],
    skipped: tuple[str, ...],
    reason: str | None,
) -> None:
    """Check everything that could stop an upgrade, without planning to start one. Changes nothing.

    These are the checks that `upgrader run` begins with, and every one is made, whatever the others find. Each finding
    has an id, which docs/reference/checks.md explains. Exits with 3 when a check blocks the run.
    """
    skips = Skips.of(skipped, reason)
    checked = check_upgrade(folder, target, skips)
    mention_needless(skips, checked.findings)
    if output == "table":
        print_findings(checked.findings, f"{checked.plan.current} → {checked.plan.target}", sys.stdout)
    elif output == "json":
        click.echo(json.dumps(_described(checked), indent=2))
    else:
        click.echo(yaml.safe_dump(_described(checked), sort_keys=False, allow_unicode=True), nl=False)
    checked.refuse_if_blocked()


def _described(checked: CheckedPlan) -> dict[str, object]:
    return {
        "current": str(checked.plan.current),
        "target": str(checked.plan.target),
        "blocked": checked.inhibited,
        "findings": [asdict(finding) for finding in checked.findings],
    }
