"""The options that several commands share, and the command line as a front end: notices and a display on stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upgrader.cli.completing import complete_run, complete_version
from upgrader.cli.events_option import EVENTS, event_stream
from upgrader.cli.notices import say
from upgrader.config.duration import parse_duration
from upgrader.errors import UsageError
from upgrader.model.version import KubernetesVersion

if TYPE_CHECKING:
    from upgrader.app.front_end import FrontEnd, RunDisplay
    from upgrader.model.finding import Finding
    from upgrader.model.skips import Skips

__all__ = [
    "DURATION",
    "EVENTS",
    "IDENTITY",
    "IDENTITY_HELP",
    "NAMED",
    "REASON",
    "RUN",
    "SKIP",
    "TAKE_OVER",
    "TARGET",
    "TIMEOUT",
    "VERSION",
    "WAIT",
    "YES",
    "front_end",
    "mention_needless",
    "one_run",
    "wait_seconds",
]


def _notify(text: str) -> None:
    say(text)
    stream = event_stream()
    if stream is not None:
        stream.notify(text)


def _display() -> RunDisplay:
    """Programs that read the events get them alone: a picture on the same terminal would overwrite what they show."""
    from upgrader.app.locking import own_name
    from upgrader.cli.ui.as_typed import program
    from upgrader.cli.ui.reporters import choose_reporter

    typed = program(click.get_current_context().obj)  # the cluster's folder
    return event_stream() or choose_reporter(sys.stderr, sys.stdin, by=own_name(), program=typed)


def front_end(*, busy: bool = True) -> FrontEnd:
    """What use cases tell and show while they work. Called before a use case is imported, as that takes seconds.

    `busy`: the command is `FrontEnd.busy` from now on; not for one that asks neither a host nor the API.
    """
    from upgrader.app.front_end import READS_FOLDER, FrontEnd
    from upgrader.cli.ui.progress_line import ProgressLine

    doing = ProgressLine(sys.stderr)

    def notify(text: str) -> None:
        doing("")
        _notify(text)

    if busy:
        # However the command ends: an error that it meets before the use case begins stands in a line of its own.
        click.get_current_context().call_on_close(partial(doing, ""))
        doing(READS_FOLDER)
    return FrontEnd(notify=notify, display=_display, doing=doing)


class _Version(click.ParamType[KubernetesVersion]):
    """A release of Kubernetes; raises UsageError for anything else."""

    name = "version"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> KubernetesVersion:
        return value if isinstance(value, KubernetesVersion) else KubernetesVersion.release(str(value))


class _Duration(click.ParamType[float]):
    """Seconds, written as a duration."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return value if isinstance(value, float) else parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


_WAIT_SECONDS = 300.0
"""As of Helm's --timeout."""

DURATION = _Duration()
VERSION = _Version()
YES = click.option("--yes", "-y", is_flag=True, help="Don't ask before starting.")
TARGET = click.option(
    "--to",
    "target",
    metavar="VERSION",
    type=VERSION,
    shell_complete=complete_version,
    help="Kubernetes version to upgrade to (default: kubernetesVersion in upgrader.yaml).",
)
RUN = click.option(
    "--run",
    "name",
    metavar="RUN",
    shell_complete=complete_run,
    help="Name of the run, from `upgrader history` (default: the newest upgrade).",
)
NAMED = click.argument("named", metavar="[RUN]", required=False, shell_complete=complete_run)
TAKE_OVER = click.option(
    "--take-over",
    is_flag=True,
    help="Take over the cluster's lock from a run that is known to be dead, without waiting for the lock to expire.",
)


SKIP = click.option(
    "--skip",
    "skipped",
    metavar="ID",
    multiple=True,
    help="Don't let the check with this id block the run (repeatable); some can't be skipped.",
)
REASON = click.option("--reason", metavar="TEXT", help="Why these checks are skipped; the run's journal records it.")


IDENTITY_HELP = (
    "Private key for the backup, as `upgrader backup keygen` writes it. The file must be readable by its owner only."
)
IDENTITY = click.option(
    "--identity",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help=IDENTITY_HELP,
)


WAIT = click.option(
    "--wait",
    "wait",
    is_flag=True,
    help="First wait for critical pods on the controllers that are starting, as after a boot.",
)
TIMEOUT = click.option(
    "--timeout",
    metavar="DURATION",
    type=DURATION,
    help=f"How long --wait may take, such as 10m (default: {_WAIT_SECONDS / 60:.0f}m).",
)


def wait_seconds(*, wait: bool, timeout: float | None) -> float | None:
    """How long --wait may take; None if it isn't given. Raises UsageError for --timeout without it."""
    if timeout is not None and not wait:
        raise UsageError("--timeout has no meaning without --wait", remedy="Add --wait, or omit --timeout.")
    return (_WAIT_SECONDS if timeout is None else timeout) if wait else None


def one_run(name: str | None, named: str | None) -> str | None:
    """The run of `--run RUN` or of RUN alone; None for neither. Raises UsageError for two."""
    if name and named and name != named:
        raise UsageError(f"both --run {name} and run {named} were given", remedy="Use only one of them.")
    return name or named


def mention_needless(skips: Skips, findings: Sequence[Finding]) -> None:
    """Say which checks were to be skipped and found nothing: such a rule is forgotten, and hides the next fault."""
    for each in skips.without_finding(findings):
        say(f"--skip {each}: this check found nothing to skip")
