"""Groups of commands: their help, which says of each the whole first sentence; Click cuts it to one line."""

from __future__ import annotations

import click

__all__ = ["GroupOfWholeLines", "HelpfulGroup"]

_LONGEST = 200
"""Characters, which are more than any sentence of ours has: nothing is cut."""


class HelpfulGroup(click.Group):
    """A group that shows its help where no command is named, and ends with 0, as kubectl's do: Click's end with 2.

    One that does something by itself (`upgrader backup`) does it.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As Click's."""
        if not (args or self.invoke_without_command or ctx.resilient_parsing):
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()
        return super().parse_args(ctx, args)


class GroupOfWholeLines(HelpfulGroup):
    """As Click's; the groups in it are of this class, too."""

    group_class = type

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As Click's, wrapped and not cut."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        shown = [(name, command) for name, command in found if command is not None and not command.hidden]
        rows = [(name, command.get_short_help_str(_LONGEST)) for name, command in shown]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
