"""Every command's help is whole, and fits a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

import click

from upgrader.cli.main import cli


def _helps(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    context = click.Context(command, info_name=path, terminal_width=80)
    yield path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _helps(found, f"{path} {name}")


def test_no_sentence_is_cut() -> None:
    """Click ends what doesn't fit on one line with dots: what a command does would be left to guess."""
    helps = dict(_helps(cli, "upgrader"))
    assert len(helps) > 50 and "upgrader certs rotate-ca trust" in helps
    lines = [(path, line) for path, text in helps.items() for line in text.splitlines() if "Usage:" not in line]
    assert [(path, line) for path, line in lines if line.endswith("...") or len(line) > 80] == []
