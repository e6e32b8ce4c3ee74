"""Man pages, one for each command, made from click's own help when the wheel is built (`scripts/hatch_build.py`).

The wheel has them as `share/man/man1`, where `man` finds them beside the programs of an environment (pipx, venv).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from upgrader.cli.main import cli

__all__ = ["render", "write"]


def render() -> Mapping[str, str]:
    """File name (`upgrader-run.1`) → the page, as roff."""
    context = click.Context(cli, info_name="upgrader", **cli.context_settings)
    return dict(_pages(cli, context))


def _pages(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    name = context.command_path.replace(" ", "-")
    children = list(_children(command, context))
    yield f"{name}.1", "\n".join(_page(name, command, context, children)) + "\n"
    for child, inner in children:
        yield from _pages(child, inner)


def _children(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield found, click.Context(found, info_name=name, parent=context)


def _page(
    name: str, command: click.Command, context: click.Context, children: list[tuple[click.Command, click.Context]]
) -> Iterator[str]:
    yield f'.TH "{name.upper()}" "1" "" "upgrader" "upgrader manual"'
    yield ".SH NAME"
    yield f"{_text(name)} \\- {_text(command.get_short_help_str(limit=300))}"
    yield ".SH SYNOPSIS"
    yield f".B {_text(context.command_path)}"
    yield _text(" ".join(command.collect_usage_pieces(context)))
    yield ".SH DESCRIPTION"
    # Click's mark of a paragraph that isn't to be wrapped is no part of the text.
    for paragraph in (command.help or "").replace("\b\n", "").strip().split("\n\n"):
        yield ".PP"
        yield from map(_line, paragraph.splitlines())
    options = [record for each in command.get_params(context) if (record := each.get_help_record(context))]
    if options:
        yield ".SH OPTIONS"
        for flags, text in options:
            yield from (".TP", f".B {_text(flags)}", _line(text))
    if children:
        yield ".SH COMMANDS"
        for child, inner in children:
            yield from (".TP", f".BR {_text(inner.command_path.replace(' ', '-'))} (1)")
            yield _line(child.get_short_help_str(limit=300))
    yield ".SH EXIT STATUS"
    yield "See the documentation's page on exit codes, or"
    yield ".BR upgrader-explain (1)."


def _line(text: str) -> str:
    """A line of running text: one that begins with a dot or a quote would be a command."""
    line = _text(text.strip())
    return f"\\&{line}" if line.startswith((".", "'")) else line


def _text(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")


def write(folder: Path) -> None:
    """Write all of them to the folder, which exists."""
    for name, page in render().items():
        (folder / name).write_text(page)
