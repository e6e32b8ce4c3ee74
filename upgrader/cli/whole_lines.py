"""A group whose help says of each command the whole first sentence: Click cuts it to what fits on one line."""

from __future__ import annotations

import click

__all__ = ["GroupOfWholeLines"]

_LONGEST = 200
"""Characters, which are more than any sentence of ours has: nothing is cut."""


class GroupOfWholeLines(click.Group):
    """As Click's; the groups in it are of this class, too."""

    group_class = type

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As Click's, wrapped and not cut."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, command.get_short_help_str(_LONGEST)) for name, command in found if command is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
