"""What a shell offers for names of runs and steps: those of the cluster folder, read from the disk alone.

A completion never fails: what can't be read is not offered.
"""

from __future__ import annotations

import glob
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["complete_folder", "complete_planned_step", "complete_run", "complete_step", "complete_version"]

_NEWEST = 20
_FOLDERS = 50


def complete_folder(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Cluster folders, here or one folder further down; where there is none, folders as the shell knows them."""
    from click.shell_completion import CompletionItem

    places = (f"{glob.escape(begun)}*{below}/upgrader.yaml" for below in ("", "/*"))
    found = (str(Path(file).parent) for place in places for file in glob.iglob(place))
    clusters = [CompletionItem(name) for name in sorted(islice(found, _FOLDERS))]
    return clusters or [CompletionItem(begun, type="dir")]


def complete_version(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """The newest patch of each minor that this upgrader knows, newest first, with how long it gets patches."""
    from click.shell_completion import CompletionItem

    from upgrader.model.support_ends import support_ends
    from upgrader.model.upgrade_path import newest_patches

    known = sorted(newest_patches().values(), reverse=True)
    offered = [each for each in known if str(each).startswith(begun)]
    ends = support_ends()
    return [
        CompletionItem(str(each), help=f"patches until {ends.of(each) or 'a date not known yet'}") for each in offered
    ]


def complete_run(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """The newest runs, newest first, with how each ended."""
    from click.shell_completion import CompletionItem

    from upgrader.engine.history.past_runs import past_runs

    try:
        found = past_runs(_folder(context) / "runs")
    except OSError:
        return []
    names = [run for run in reversed(found) if run.name.startswith(begun)]
    return [CompletionItem(run.name, help=run.outcome) for run in names[:_NEWEST]]


def complete_step(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """The steps of the run that is named on the line, or of the newest one."""
    from click.shell_completion import CompletionItem

    from upgrader.engine.history.past_runs import past_runs

    try:
        found = past_runs(_folder(context) / "runs")
    except OSError:
        return []
    name = context.params.get("name")
    runs = [run for run in found if run.name == name] if name else [run for run in found if run.state.is_upgrade]
    steps = runs[-1].state.steps if runs else ()
    return [CompletionItem(step.name, help=step.summary) for step in steps if step.name.startswith(begun)]


def complete_planned_step(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """The steps of the newest run that have not begun: those that may wait for an approval."""
    from click.shell_completion import CompletionItem

    from upgrader.engine.history.past_runs import newest_run

    try:
        found = newest_run(_folder(context) / "runs")
    except OSError:
        return []
    if found is None:
        return []
    left = [name for name in found.state.planned if found.state.step(name) is None]
    return [CompletionItem(name) for name in left if name.startswith(begun)]


def _folder(context: click.Context) -> Path:
    """The cluster's folder, of a command line that is not complete yet."""
    if isinstance(context.obj, Path):
        return context.obj
    before = context.find_root().params.get("folder")
    return before.absolute() if isinstance(before, Path) else Path.cwd()
