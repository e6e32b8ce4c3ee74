"""What a shell offers for names of runs and steps: those of the cluster folder, read from the disk alone.

A completion never fails: what can't be read is not offered.
"""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from upgrader.cli.folder_option import folder_of

__all__ = ["complete_run", "complete_step"]

_NEWEST = 20


def complete_run(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """The newest runs, newest first, with how each ended."""
    from upgrader.engine.history.past_runs import past_runs  # not at the top: most commands complete nothing

    try:
        found = past_runs(folder_of(context) / "runs")
    except OSError:
        return []
    names = [run for run in reversed(found) if run.name.startswith(begun)]
    return [CompletionItem(run.name, help=run.outcome) for run in names[:_NEWEST]]


def complete_step(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """The steps of the run that is named on the line, or of the newest one."""
    from upgrader.engine.history.past_runs import past_runs

    try:
        found = past_runs(folder_of(context) / "runs")
    except OSError:
        return []
    name = context.params.get("name")
    runs = [run for run in found if run.name == name] if name else [run for run in found if run.state.is_upgrade]
    steps = runs[-1].state.steps if runs else ()
    return [CompletionItem(step.name, help=step.summary) for step in steps if step.name.startswith(begun)]
