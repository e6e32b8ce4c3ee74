"""`upgrader run`: carry the plan out."""

from __future__ import annotations

from pathlib import Path

import click

from upgrader.assemble import assemble
from upgrader.cli.carry_out import carry_out
from upgrader.cli.locking import TAKE_OVER, cluster_lock, lock_holder
from upgrader.cli.wiring import open_session
from upgrader.engine.history import newest_run
from upgrader.engine.lock import folder_lock
from upgrader.errors import Inhibited
from upgrader.preflight.run_checks import inhibits
from upgrader.ui.plan import print_plan

__all__ = ["run"]


@click.command()
@click.option(
    "--to", metavar="VERSION", help="Kubernetes version to go to (default: kubernetesVersion in upgrader.yaml)."
)
@click.option("--yes", "-y", is_flag=True, help="Don't ask before starting.")
@TAKE_OVER
@click.pass_obj
def run(folder: Path, to: str | None, yes: bool, take_over: bool) -> None:
    """Upgrade the cluster: plan, check, then step by step, each followed by its health gates.

    A step that fails is rolled back, and the earlier steps of this run after it, unless policy says otherwise.

    \b
    Exit codes: 0 done, 2 wrong usage or files, 3 inhibited by a check, 4 failed and rolled back with the cluster
    healthy, 5 needs a person, 6 another run is at work, 130 interrupted.
    """
    with (
        open_session(folder, to) as session,
        folder_lock(folder, lock_holder()),
        cluster_lock(session, take_over=take_over) as held,
    ):
        _mention_interrupted(folder)
        observed = session.observe()
        planned = session.plan(observed)
        findings = session.preflight(observed, planned)
        print_plan(planned, findings, diff=False)
        if inhibits(findings):
            raise Inhibited(
                "the run was refused by a check; nothing was changed", remedy="Mend what is marked as error or unknown."
            )
        if not yes:
            click.confirm("Start?", abort=True, err=True)
        pipeline = assemble(planned, session.settings, session.cluster, session.tools)
        carry_out(session, pipeline, label=str(planned.target), plan=planned, held=held)


def _mention_interrupted(folder: Path) -> None:
    """Going on and beginning anew differ in where they go back to."""
    newest = newest_run(folder / "runs")
    if newest and newest.outcome == "interrupted" and newest.report.is_upgrade:
        click.echo(
            f"Run {newest.name} was interrupted. `upgrader resume` goes on with it, and knows the way back to before "
            "it; this begins a new run, whose way back is the cluster as it is now.",
            err=True,
        )
