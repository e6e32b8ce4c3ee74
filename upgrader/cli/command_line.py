"""The command line as a front end: notices on standard error, a display that fits it, the report at the end."""

from __future__ import annotations

import sys

import click

from upgrader.app.execution import FinishedRun
from upgrader.app.front_end import FrontEnd
from upgrader.model.version import KubernetesVersion
from upgrader.ui.reporters import choose_reporter
from upgrader.ui.summary import print_report

__all__ = ["FRONT_END", "RUN", "TAKE_OVER", "TARGET", "YES", "conclude", "confirm"]

FRONT_END = FrontEnd(notify=lambda text: click.echo(text, err=True), display=lambda: choose_reporter(sys.stderr))


class _Version(click.ParamType[KubernetesVersion]):
    """A Kubernetes version; raises UsageError for anything else."""

    name = "version"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> KubernetesVersion:
        return value if isinstance(value, KubernetesVersion) else KubernetesVersion.parse(str(value))


YES = click.option("--yes", "-y", is_flag=True, help="Don't ask before starting.")
TARGET = click.option(
    "--to",
    "target",
    metavar="VERSION",
    type=_Version(),
    help="Kubernetes version to upgrade to (default: kubernetesVersion in upgrader.yaml).",
)
RUN = click.option(
    "--run", "name", metavar="RUN", help="Which run, as `upgrader history` names it (default: the newest upgrade)."
)
TAKE_OVER = click.option(
    "--take-over",
    is_flag=True,
    help="Take the cluster's lock from a run that is known to be dead, without waiting for it to expire.",
)


def confirm(question: str, *, yes: bool) -> None:
    """Ask, unless `yes`; ends the command when the answer is no."""
    if not yes:
        click.confirm(question, abort=True, err=True)


def conclude(finished: FinishedRun) -> None:
    """Print the run's report, and raise the error of its outcome."""
    print_report(finished.state, finished.folder)
    if finished.error is not None:
        raise finished.error
