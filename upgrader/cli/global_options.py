"""Options that are taken before and after the command: `upgrader -C one plan`, `upgrader plan -C one`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from upgrader.cli.completing import complete_folder
from upgrader.errors import UsageError

__all__ = ["environment", "global_options", "in_environment", "with_global_options", "with_output", "without_choice"]

_KUBECONFIG, _CONTEXT = "UPGRADER_KUBECONFIG", "UPGRADER_CONTEXT"
_FOLDER_TYPE = click.Path(path_type=Path, file_okay=False)
_FILE_TYPE = click.Path(path_type=Path, dir_okay=False)

_OPTIONS: Sequence[Callable[[Any], Any]] = (
    click.option(
        "-C",
        "folder",
        metavar="DIR",
        type=_FOLDER_TYPE,
        default=Path(),
        shell_complete=complete_folder,
        help="The cluster's folder (default: the current one); before or after the command.",
    ),
    click.option(
        "-o",
        "--output",
        "form",
        metavar="FORM",
        help="Output format; each command lists its own. All these options can also follow the command.",
    ),
    click.option(
        "--kubeconfig",
        metavar="FILE",
        type=_FILE_TYPE,
        help=f"The cluster's kubeconfig; overrides upgrader.yaml. [env: {_KUBECONFIG}]",
    ),
    click.option(
        "--context",
        "chosen",
        metavar="NAME",
        help=f"The kubeconfig's context (default: the current one). [env: {_CONTEXT}]",
    ),
)


def global_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: the options as the root command has them: with their help, which is there once for all commands."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def with_global_options(command: click.Command) -> click.Command:
    """The command, and those below it, with the options behind it; `-o` is each command's own."""
    if isinstance(command, click.Group):
        for each in command.commands.values():
            with_global_options(each)
        if not command.invoke_without_command:
            return command
    if all(parameter.name != "folder_after" for parameter in command.params):
        command.params += [
            _hidden("-C", "folder", _FOLDER_TYPE, _choose_folder, complete_folder),
            _hidden("--kubeconfig", "kubeconfig", _FILE_TYPE, _choose_kubeconfig),
            _hidden("--context", "chosen", click.STRING, _choose_context),
        ]
    return command


def with_output(command: click.Command | None, words: list[str], form: str | None) -> list[str]:
    """The words behind a command, with the `-o` that was given before it; one of their own comes later, and counts.

    Raises UsageError for a command that has no such option.
    """
    if form is None or command is None:
        return words
    depth = 0
    while isinstance(command, click.Group) and depth < len(words) and words[depth] in command.commands:
        command, depth = command.commands[words[depth]], depth + 1
    forms = [each for each in command.params if "-o" in each.opts and isinstance(each.type, click.Choice)]
    if not forms and not isinstance(command, click.Group):
        raise UsageError(f"`upgrader {command.name}` has only one output format", remedy="Leave -o out.")
    return [*words[:depth], "-o", form, *words[depth:]] if forms else words


def environment(kubeconfig: Path | None, context: str | None) -> Mapping[str, str]:
    """The variables by which every use case, and what it starts, gets to know what was chosen."""
    chosen = {_KUBECONFIG: kubeconfig and str(kubeconfig.absolute()), _CONTEXT: context}
    return {name: value for name, value in chosen.items() if value}


@contextmanager
def in_environment(changes: Mapping[str, str]) -> Iterator[None]:
    """With these variables for as long as it is open."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def without_choice() -> Iterator[None]:
    """For a folder whose cluster no option and no variable may replace, such as that of a new lab."""
    before = {name: os.environ.pop(name, None) for name in (_KUBECONFIG, _CONTEXT)}
    try:
        yield
    finally:
        os.environ.update({name: value for name, value in before.items() if value is not None})


def _hidden(option: str, name: str, kind: click.ParamType[Any], callback: Any, complete: Any = None) -> click.Option:
    return click.Option(
        [option, f"{name}_after"],
        type=kind,
        expose_value=False,
        hidden=True,
        callback=callback,
        shell_complete=complete,
    )


def _choose_folder(context: click.Context, _: click.Parameter, folder: Path | None) -> None:
    if folder is not None:
        _refuse_another(context, "-C", "folder", folder)
        context.obj = context.find_root().obj = folder.absolute()


def _choose_kubeconfig(context: click.Context, _: click.Parameter, file: Path | None) -> None:
    if file is not None:
        _refuse_another(context, "--kubeconfig", "kubeconfig", file)
        context.find_root().with_resource(in_environment(environment(file, None)))


def _choose_context(context: click.Context, _: click.Parameter, name: str | None) -> None:
    if name is not None:
        _refuse_another(context, "--context", "chosen", name)
        context.find_root().with_resource(in_environment(environment(None, name)))


def _refuse_another(context: click.Context, option: str, name: str, after: Path | str) -> None:
    """It must be clear which cluster is meant; the same value twice is no contradiction."""
    root = context.find_root()
    before = root.params.get(name)
    given = root.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    same = before.absolute() == after.absolute() if isinstance(before, Path) and isinstance(after, Path) else False
    if given and not same and before != after:
        raise UsageError(
            f"{option} is given twice: {before} before the command, and {after} after it",
            remedy="Use only one of them.",
        )
