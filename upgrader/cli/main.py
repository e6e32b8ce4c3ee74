"""The `upgrader` command. Subcommands are imported only when they are used, so that `--help` stays quick."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from upgrader import __version__
from upgrader.cli.command_groups import HelpfulGroup
from upgrader.cli.exit_code import exit_code_of
from upgrader.cli.global_options import (
    environment,
    global_options,
    in_environment,
    with_global_options,
    with_output,
)
from upgrader.cli.ui.lost_terminal import outlast_the_terminal
from upgrader.cli.ui.masked_output import mask_output
from upgrader.errors import Interrupted, UpgraderError
from upgrader.model.redaction.known_secrets import KNOWN, secrets_in

__all__ = ["cli", "main"]

_GROUPS = {
    "Get started": {
        "init": "Write the cluster folder for an existing cluster.",
        "doctor": "Check this machine: programs, keys, clock, disk.",
        "images": "Push upgrader's own images to your registry.",
        "adopt": "Move a kubeadm control plane into Helm charts, or back.",
    },
    "Upgrade": {
        "versions": "Show what the cluster can be upgraded to, and in how many runs.",
        "check": "Check everything that could stop an upgrade; changes nothing.",
        "plan": "Show what a run would change; changes nothing.",
        "rehearse": "Try the target's kube-apiserver on a copy of the cluster's data.",
        "run": "Upgrade the cluster, step by step; rolls back if a step fails.",
        "approve": "Approve a step that a run waits for.",
        "status": "Show what the newest run is doing, or how it ended.",
        "finalize": "End the emulation of the old minor; the point of no return.",
        "migrate-storage": "Rewrite every object in the current storage version.",
    },
    "When it fails": {
        "resume": "Resume an interrupted run, from this machine or another.",
        "rollback": "Undo what a run did, newest step first.",
        "recover": "Restore an unreachable API server from the checkpoints on the controllers.",
        "restore": "Replace the cluster's data with a backup.",
        "explain": "Explain what a message names: a check, a gate, an exit code, an error.",
    },
    "Cluster care": {
        "backup": "Take an encrypted backup of the cluster's data, or verify one.",
        "certs": "Show the controllers' certificates, and renew them.",
        "controllers": "Remove a controller from the control plane.",
        "probe": "Send requests to the API as clients do, and count failures.",
    },
    "Workload protection": {
        "guard": "Switch the webhooks of the chart guard off, or on again.",
    },
    "Many clusters": {
        "fleet": "Upgrade many clusters in stages, in one campaign.",
    },
    "Tools": {
        "history": "List the runs of this cluster.",
        "report": "Recreate the report of a run, or compare two runs.",
        "replay": "Play back a recorded run.",
        "bundle": "Images and charts in one file, for sites without a registry.",
        "config": "Show every setting, and where it comes from.",
        "completion": "Print the completion script of bash, zsh or fish.",
        "lab": "Real local clusters to try things on.",
    },
}
_COMMANDS = tuple(name for group in _GROUPS.values() for name in group)
_SYNONYMS = {
    "upgrade": "run",
    "apply": "run",
    "update": "run",
    "diff": "plan",
    "undo": "rollback",
    "continue": "resume",
    "preflight": "check",
    "logs": "report",
    "uninstall": "adopt",
}
"""What other programs call it."""
_WITHOUT_FOLDER = ("completion", "explain", "lab")

_DECLINED = "Aborted: nothing was started."
_INTERRUPTED = (
    "If a run was in progress: `upgrader status` shows how far it got, and `upgrader resume` continues it. An active "
    "Helm process continues until it is done or has rolled back."
)


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """End as SIGPIPE would where the output is not read to its end: click would end with 1, our code for a bug."""
    try:
        yield
    except BrokenPipeError as error:
        # What is still in the buffer goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(exit_code_of(error)) from error


def _refused(error: OSError, folder: object) -> UpgraderError | None:
    """What this machine's system refused; None for a bug. A current folder that is gone is refused before `cli`."""
    from upgrader.system_errors import refused_by_the_system  # not at the top: seldom needed

    return refused_by_the_system(error, folder if isinstance(folder, Path) else None)


class _LazyGroup(HelpfulGroup):
    """A group that knows its commands' names and one-line helps without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"upgrader.cli.{name}"), name)
        return command if cmd_name in _WITHOUT_FOLDER else with_global_options(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            from difflib import get_close_matches

            name = error.command_name
            meant = f"No such command {name!r}. Did you mean {_SYNONYMS[name]!r}?" if name in _SYNONYMS else None
            closest = get_close_matches(name, _COMMANDS, n=1)
            raise click.NoSuchCommand(name, meant, possibilities=closest, ctx=ctx) from None
        return name, command, with_output(command, rest, ctx.params.get("form"))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As Click's; it prints the help."""
        with _reader_may_leave():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        from upgrader.cli.events_option import outcome_told  # not at the top: only commands that act have events

        with outcome_told(ctx), _reader_may_leave():
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt as stopped:
                ended = Interrupted("interrupted", remedy=_INTERRUPTED)
                ended.folder = ctx.obj
                raise ended from stopped
            except UpgraderError as error:
                error.folder = ctx.obj
                raise
            except BrokenPipeError:
                raise
            except OSError as error:
                refused = _refused(error, ctx.obj)
                if refused is None:
                    raise
                raise refused from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(map(len, _COMMANDS))
        for title, commands in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(longest), text) for name, text in commands.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="upgrader", message="%(prog)s %(version)s")
@global_options
@click.pass_context
def cli(
    context: click.Context,
    folder: Path,
    form: str | None,  # noqa: ARG001  # the command that follows gets it: `_LazyGroup.resolve_command`
    kubeconfig: Path | None,
    chosen: str | None,
) -> None:
    """Upgrade self-hosted Kubernetes control planes without an API outage, and roll back if a step fails."""
    context.obj = folder.absolute()
    context.with_resource(in_environment(environment(kubeconfig, chosen)))


def main() -> None:
    """Run the command; an UpgraderError becomes one clear message and its exit code."""
    gc.set_threshold(100_000)  # what modules are made of isn't garbage, and is most of what a command makes
    outlast_the_terminal()
    KNOWN.learn(secrets_in(dict(os.environ)))  # a playbook or an inventory may quote them
    mask_output()
    try:
        code = cli.main(standalone_mode=False, prog_name="upgrader")
    except (click.exceptions.Abort, KeyboardInterrupt) as stopped:
        # Click raises Abort both for a declined question and for Ctrl-C at it, or before a command has begun.
        click.echo(_DECLINED, err=True)
        code = exit_code_of(stopped)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except UpgraderError as error:
        from upgrader.cli.ui.errors import print_error

        print_error(error, commands=[name for name in _COMMANDS if name not in _WITHOUT_FOLDER])
        code = error.exit_code
    gc.freeze()  # nor is it worth looking for at the end
    sys.exit(code or 0)
