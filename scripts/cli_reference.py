"""The reference of the command line, made from click's own help: `make docs` writes docs/reference/cli.md."""

from __future__ import annotations

from collections.abc import Iterator

import click

from upgrader.cli.main import cli

__all__ = ["render"]

_HEAD = """\
# Command line

`make docs` generates this page from `upgrader --help`.
"""


def render() -> str:
    """The reference as Markdown: one section for each command, in the order of the help."""
    return "\n".join([_HEAD, *_sections(cli, click.Context(cli, info_name="upgrader", **cli.context_settings))])


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    formatter = click.HelpFormatter(width=110)
    command.format_help(context, formatter)
    yield f"## `{context.command_path}`\n\n```text\n{formatter.getvalue().strip()}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from _sections(found, click.Context(found, info_name=name, parent=context))


if __name__ == "__main__":
    print(render(), end="")
