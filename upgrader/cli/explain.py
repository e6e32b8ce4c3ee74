"""`upgrader explain`: what a code on the screen means."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from upgrader.app.explanations import Explanation

__all__ = ["explain"]

_WIDTH = 100


def _complete(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from upgrader.app.explanations import all_codes

    return [CompletionItem(each.code, help=each.means) for each in all_codes() if each.code.startswith(begun)]


@click.command()
@click.argument("codes", metavar="[CODE]...", nargs=-1, shell_complete=_complete)
def explain(codes: tuple[str, ...]) -> None:
    """Explain each CODE that a message names: the id of a check or of a finding of `recover`, a gate, an exit code or
    an error. Without CODE, list all.

    Needs no cluster and no folder. `…` stands for details of the actual case.
    """
    from upgrader.app.explanations import all_codes
    from upgrader.app.explanations import explain as explained

    if not codes:
        for each in all_codes():
            click.echo(_shortened(f"{each.code:<32} {each.kind:<10} {each.means}", _columns()))
    for found in [explained(code) for code in codes]:
        _show(found)


def _show(found: Explanation) -> None:
    click.echo(f"{found.code} ({found.kind})")
    lines = {"Means": found.means, "Matters": found.why, "To do": found.remedy, "More": found.page}
    width = min(_WIDTH, _columns())
    for name, text in lines.items():
        if text:
            click.echo(click.wrap_text(text, width, f"  {name + ':':<9}", " " * 11))


def _columns() -> int:
    """Of the terminal; elsewhere nothing is cut to fit."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 145


def _shortened(text: str, columns: int) -> str:
    return text if len(text) <= columns else f"{text[: columns - 1]}…"
