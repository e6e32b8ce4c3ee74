"""`upgrader completion`: the script that makes a shell complete commands, options, runs and steps."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell (bash 4.4 or later, zsh, fish).

    \b
    bash:  upgrader completion bash \\
             > ~/.local/share/bash-completion/completions/upgrader
    zsh:   upgrader completion zsh > "${fpath[1]}/_upgrader"
    fish:  upgrader completion fish > ~/.config/fish/completions/upgrader.fish

    Then start a new shell.
    """
    made = get_completion_class(shell)
    assert made is not None  # click has all three
    root = context.find_root()
    click.echo(made(root.command, {}, "upgrader", "_UPGRADER_COMPLETE").source())
