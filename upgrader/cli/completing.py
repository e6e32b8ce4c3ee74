"""What a shell offers for names of runs and steps: those of the cluster folder, read from the disk alone.

A completion never fails: what can't be read is not offered.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["complete_folder", "complete_planned_step", "complete_run", "complete_step", "complete_version"]

Found = TypeVar("Found")

_NEWEST = 20
_FOLDERS = 50
_PLAIN = re.compile(r"[A-Za-z0-9_./:@+-]+")


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
    from upgrader.engine.journal.glance import outcome

    named = [folder for folder in _runs(context) if folder.name.startswith(begun)]
    return _offered(((folder.name, _read(outcome, folder) or "unknown") for folder in named[:_NEWEST]), begun)


def complete_step(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """The steps of the run that is named on the line, or of the newest upgrade, as far as they were begun."""
    from upgrader.engine.journal.glance import glance

    name = context.params.get("name")
    found = ((folder, _read(glance, folder)) for folder in _runs(context) if not name or folder.name == name)
    of = next((seen for folder, seen in found if seen and (folder.name == name or seen.upgrade)), None)
    return _offered(of.begun if of else (), begun)


def complete_planned_step(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """The steps of the newest run that have not begun: those that may wait for an approval."""
    from upgrader.engine.journal.glance import glance

    newest = next((_read(glance, folder) for folder in _runs(context)), None)
    left = [step for step in newest.planned if step not in dict(newest.begun)] if newest else []
    return _offered(((step, "") for step in left), begun)


def _offered(found: Iterable[tuple[str, str]], begun: str) -> list[CompletionItem]:
    """Those (name, help) that begin so. A shell puts a name into its line as it is, and journals may come from the
    cluster, or from another team: what the shell, or the terminal, could obey isn't offered.
    """
    from click.shell_completion import CompletionItem

    plain = [(name, said) for name, said in found if name.startswith(begun) and _PLAIN.fullmatch(name)]
    return [CompletionItem(name, help="".join(filter(str.isprintable, said)) or None) for name, said in plain]


def _runs(context: click.Context) -> list[Path]:
    """The folders of runs, newest first."""
    from upgrader.engine.history.run_folders import run_folders

    try:
        return run_folders(_folder(context) / "runs")[::-1]
    except OSError:
        return []


def _read(journal: Callable[[Path], Found], folder: Path) -> Found | None:
    """What a run's journal says; None where it can't be read."""
    from upgrader.engine.journal.glance import JOURNAL

    try:
        return journal(folder / JOURNAL)
    except (OSError, ValueError, RecursionError):
        return None


def _folder(context: click.Context) -> Path:
    """The cluster's folder, of a command line that is not complete yet."""
    if isinstance(context.obj, Path):
        return context.obj
    before = context.find_root().params.get("folder")
    return before.absolute() if isinstance(before, Path) else Path.cwd()
