"""`upgrader plan`: what a run would change."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from upgrader.cli.command_line import TARGET, front_end
from upgrader.cli.exit_code import CHANGES
from upgrader.cli.output import output_option
from upgrader.errors import UsageError
from upgrader.model.version import KubernetesVersion

if TYPE_CHECKING:
    from upgrader.app.offline_plan import OfflinePlan
    from upgrader.steps.plan_document import PlanDocument

__all__ = ["plan"]

Output = Literal["text", "json", "markdown"]


@click.command()
@TARGET
@output_option("text", "json", "markdown")
@click.option("--diff", is_flag=True, help="Show the diff of every object that changes; json and markdown always do.")
@click.option(
    "--offline",
    is_flag=True,
    help="Read only the folder, and execute nothing in it: needs no credentials, so it is safe for merge requests.",
)
@click.option(
    "--against",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="With --offline: show the difference from another cluster folder, such as a checkout of the target branch.",
)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save the plan for `upgrader run --plan FILE`, valid for 24 hours; it has no secret values.",
)
@click.option(
    "--detailed-exitcode", "detailed", is_flag=True, help=f"Exit with {CHANGES} if a run would change something."
)
@click.pass_context
def plan(
    context: click.Context,
    target: KubernetesVersion | None,
    output: Output,
    diff: bool,
    offline: bool,
    against: Path | None,
    out: Path | None,
    detailed: bool,
) -> None:
    """Show what `upgrader run` would change, and what blocks it. Changes nothing.

    Exits with 3 when a check blocks the run.
    """
    folder: Path = context.obj
    if offline:
        from upgrader.app.offline_plan import plan_offline

        if out is not None:
            raise UsageError("--out needs the cluster: a saved plan is bound to it", remedy="Omit --offline.")
        if detailed:
            raise UsageError("--detailed-exitcode needs the cluster: the folder doesn't show what a run would change")
        _print(plan_offline(folder, target, against), output, diff=diff)
        return
    if against is not None:
        raise UsageError("--against compares folders", remedy="Add --offline.")
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.upgrade import plan_upgrade, save_plan
    from upgrader.cli.ui.findings import on_screen

    checked = plan_upgrade(folder, target, shown) if out is None else save_plan(folder, target, out, shown)
    _print(checked.document, output, diff=diff)
    checked.refuse_if_blocked(seen=output == "text" and not checked.ahead and on_screen(checked.findings, sys.stdout))
    if detailed and checked.document.to_do:
        context.exit(CHANGES)


def _print(planned: PlanDocument | OfflinePlan, output: Output, *, diff: bool) -> None:
    from upgrader.app.offline_plan import OfflinePlan
    from upgrader.cli.ui.offline_plan import print_offline_plan
    from upgrader.cli.ui.plan import print_plan
    from upgrader.cli.ui.plan_json import plan_json
    from upgrader.cli.ui.plan_markdown import plan_markdown

    if output == "json":
        click.echo(plan_json(planned))
    elif output == "markdown":
        click.echo(plan_markdown(planned))
    elif isinstance(planned, OfflinePlan):
        print_offline_plan(planned, diff=diff, stream=sys.stdout)
    else:
        print_plan(planned, diff=diff, stream=sys.stdout)
