"""`-C DIR`, which is taken before and after the command: `upgrader -C one plan`, `upgrader plan -C one`."""

from __future__ import annotations

from pathlib import Path

import click

from upgrader.errors import UsageError

__all__ = ["FOLDER_HELP", "folder_of", "with_folder_option"]

FOLDER_HELP = "The cluster's folder (default: the current one); before or after the command."
_NAME = "folder_after"


def with_folder_option(command: click.Command) -> click.Command:
    """The command, and those below it, with the option; the group's help has it once for all of them."""
    if isinstance(command, click.Group):
        for each in command.commands.values():
            with_folder_option(each)
    elif all(parameter.name != _NAME for parameter in command.params):
        command.params.append(
            click.Option(
                ["-C", _NAME],
                type=click.Path(path_type=Path, file_okay=False),
                expose_value=False,
                hidden=True,
                callback=_chosen,
            )
        )
    return command


def folder_of(context: click.Context) -> Path:
    """The folder of a command line that is not complete yet, for completion."""
    if isinstance(context.obj, Path):
        return context.obj
    before = context.find_root().params.get("folder")
    return before.absolute() if isinstance(before, Path) else Path.cwd()


def _chosen(context: click.Context, _: click.Parameter, folder: Path | None) -> None:
    if folder is None:
        return
    root = context.find_root()
    before = root.params.get("folder")
    given = root.get_parameter_source("folder") is click.core.ParameterSource.COMMANDLINE
    if given and isinstance(before, Path) and before.absolute() != folder.absolute():
        raise UsageError(
            f"-C is given twice: {before} before the command, and {folder} after it", remedy="Leave one of them out."
        )
    context.obj = root.obj = folder.absolute()
