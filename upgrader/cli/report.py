"""`upgrader report`: a run's reports, made again from its journal."""

from __future__ import annotations

import json
import sys
import webbrowser
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upgrader.cli.command_line import front_end
from upgrader.cli.completing import complete_run
from upgrader.cli.notices import say
from upgrader.cli.output import output_option
from upgrader.errors import UsageError

if TYPE_CHECKING:
    from upgrader.reporting.report.formats import Format

__all__ = ["report", "show_page"]


@click.command()
@click.argument("name", metavar="[RUN]", required=False, shell_complete=complete_run)
@output_option(
    "html",
    "json",
    "junit",
    "markdown",
    default=False,
    help_text="Print the report in this format on standard output, and write no file.",
)
@click.option("--open", "opened", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--redacted",
    is_flag=True,
    help="With -o: replace names of hosts and people, and addresses, each with the same placeholder throughout.",
)
@click.option(
    "--compare",
    nargs=2,
    metavar="RUN RUN",
    shell_complete=complete_run,
    help="Only compare the step durations of two runs (with -o: json or markdown).",
)
@click.pass_obj
def report(
    folder: Path,
    name: str | None,
    output: Format | None,
    opened: bool,
    redacted: bool,
    compare: tuple[str, str] | None,
) -> None:
    """Recreate the report of RUN from its journal (default: the newest run), and print its path.

    Every run leaves report.html, report.json, report.md and junit.xml in runs/RUN. A killed run has none, or outdated
    ones: this creates them from the journal. Needs no cluster, except for runs of other machines.
    """
    if compare is not None:
        if name or opened or redacted or output in ("html", "junit"):
            raise UsageError(
                "--compare can only be combined with two runs and -o json or markdown",
                remedy="Omit the other options.",
            )
        _compare(folder, compare, output)
        return
    if opened and output is not None:
        raise UsageError("--open and -o can't be combined", remedy="Use only one of them.")
    if redacted and output is None:
        raise UsageError(
            "--redacted needs -o: the files in the run's folder are never redacted",
            remedy="Add `-o html` or another format.",
        )
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.report import run_to_report

    with shown.busy("looking for runs…"):
        found = run_to_report(folder, name)
    if output is not None:
        click.echo(found.text(output, redact=redacted), nl=False)
        return
    show_page(found.write(), opened=opened)


def show_page(page: Path, *, opened: bool) -> None:
    """Print where a page is, and open it in a browser if that was asked for."""
    click.echo(page)
    if opened and not webbrowser.open(page.absolute().as_uri()):
        say("No browser could be started: open the file above.")


def _compare(folder: Path, runs: tuple[str, str], output: Format | None) -> None:
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.report import compare_runs
    from upgrader.cli.ui.comparison import print_comparison
    from upgrader.reporting.report.comparison import comparison_markdown

    with shown.busy("looking for runs…"):
        found = compare_runs(folder, *runs)
    if output == "json":
        click.echo(json.dumps(asdict(found), indent=2))
    elif output == "markdown":
        click.echo(comparison_markdown(found))
    else:
        print_comparison(found, sys.stdout)
