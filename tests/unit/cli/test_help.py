"""Every command's help is whole, and fits a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

import click

from upgrader.cli.main import cli


def _helps(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _helps(found, click.Context(found, info_name=name, parent=context))


def test_no_sentence_is_cut() -> None:
    """Click ends what doesn't fit on one line with dots: what a command does would be left to guess."""
    # With the settings of a real one: Click keeps the options of help that it has made for a command.
    whole = click.Context(cli, info_name="upgrader", terminal_width=80, **cli.context_settings)
    helps = dict(_helps(cli, whole))
    assert len(helps) > 50 and "upgrader certs rotate-ca trust" in helps
    lines = [(path, line) for path, text in helps.items() for line in text.splitlines() if "Usage:" not in line]
    assert [(path, line) for path, line in lines if line.endswith("...") or len(line) > 80] == []
