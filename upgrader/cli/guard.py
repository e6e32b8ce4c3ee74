"""`upgrader guard`: the webhooks of the guard that runs in the cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upgrader.cli.command_groups import GroupOfWholeLines
from upgrader.cli.command_line import front_end
from upgrader.cli.notices import say

if TYPE_CHECKING:
    from upgrader.recover.webhook_bypass.configurations import Webhook

__all__ = ["guard"]


@click.group(cls=GroupOfWholeLines)
def guard() -> None:
    """Switch guard's webhooks off and on; forget a cell that is gone.

    guard is the chart that limits what happens to workloads: evictions, deletions, downscales (docs/guard.md). If it
    isn't installed, there is nothing to switch.
    """


@guard.command()
@click.argument("webhooks", metavar="[WEBHOOK]...", nargs=-1)
@click.pass_obj
def off(folder: Path, webhooks: tuple[str, ...]) -> None:
    """Make guard's webhooks match nothing: all of them, or only WEBHOOKs.

    WEBHOOK is the name of a webhook, or of a configuration with several. guard's other functions keep running. Each
    webhook's selector is saved in an annotation of its configuration, for `upgrader guard on`. A webhook that is
    already off is left unchanged.

    Exit codes: 0 they are off, 2 there is no such webhook, 5 the API rejected it or did not answer.
    """
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.guard_switch import switch_guard_off

    told = _Told("off", shown.notify)
    with shown.busy("asking the cluster…"):
        switch_guard_off(folder, webhooks, told)
    if not told.any:
        say("None of guard's webhooks was on.")


@guard.command()
@click.argument("webhooks", metavar="[WEBHOOK]...", nargs=-1)
@click.pass_obj
def on(folder: Path, webhooks: tuple[str, ...]) -> None:
    """Switch on the webhooks that `upgrader guard off` switched off: all of them, or only WEBHOOKs.

    They are switched on in reverse order. Each is tested first: the API server calls it in a dry run, through a
    temporary configuration. A webhook that doesn't answer stays off, and so do those that were switched off before it.

    Exit codes: 0 they are on, 2 there is no such webhook, 3 one doesn't answer, 5 the API rejected it or did not
    answer.
    """
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.guard_switch import switch_guard_on

    told = _Told("on", shown.notify)
    with shown.busy("asking the cluster…"):
        switch_guard_on(folder, webhooks, told, shown)
    if not told.any:
        say("None of guard's webhooks was off.")


@guard.command("forget-cell")
@click.argument("cell")
@click.pass_obj
def forget(folder: Path, cell: str) -> None:
    """Remove cell CELL, with its counts and allowed deletions, from all PodProtectors.

    For a cluster that is gone, or whose pods can't be reached but still count as available, so that deletions in other
    cells would be allowed. If the cell's aggregator still runs and reaches the PodProtectors, it counts the pods again:
    stop it first (`kubectl -n NAMESPACE scale deployment guard-aggregator --replicas=0`).

    Exit codes: 0 removed, 2 no PodProtector has such a cell, 3 guard's generator hasn't removed it within a minute, 5
    the API rejected it or did not answer.
    """
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.guard_cells import forget_cell

    with shown.busy("asking the cluster…"):
        forget_cell(folder, cell, lambda name: shown.notify(f"removing from: {name}"), shown.notify)
    say(f"removed: {cell}")


class _Told:
    """Says each webhook, when it is done."""

    def __init__(self, state: str, say: Callable[[str], None]) -> None:
        self._state, self._say, self.any = state, say, False

    def __call__(self, webhook: Webhook) -> None:
        self.any = True
        self._say(f"{self._state}: {webhook}")
