"""The components of the control plane know the flags that the run starts them with, and warn of none of them."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.flag_lifecycle import fate, judged_by, known_flags
from upgrader.steps.release.planned_commands import PlannedCommand, planned_commands

__all__ = ["check_flags"]

_LETTERS = ("h", "v")
"""The flags of one dash that every component has."""


def check_flags(context: PreflightContext) -> Iterator[Finding]:
    """A component ends at once at a flag that it doesn't know, before it does anything else."""
    for command in planned_commands(context.changing, context.target):
        if command.flags is None:
            yield Finding(
                "flags.unread",
                "warning",
                f"{command}: its flags can't be read",
                f"{command.place} Its command is another program, such as a shell, which starts {command.component}.",
                "Compare its flags yourself with those that `--help` of the new version shows.",
            )
        elif judged_by(command.version) is None:
            yield Finding(
                "flags.no-data",
                "unknown",
                f"{command}: which flags it has isn't known",
                f"{command.place} This version of upgrader doesn't know v{command.version.major}."
                f"{command.version.minor}.",
                "Use a newer upgrader; or compare the flags with those that `--help` of the new version shows, and "
                "skip this finding.",
            )
        else:
            yield from _judged(command)


def _judged(command: PlannedCommand) -> Iterator[Finding]:
    unknown: dict[str, str] = {}
    deprecated: dict[str, str] = {}
    for given in command.flags or ():
        known = known_flags().get((command.component, given.name))
        if given.letter:
            if given.name not in _LETTERS:
                shown = given.words[0].partition("=")[0]
                unknown[shown] = "no flag of a single dash; long names have two"
        elif known is None or not known.known_by(command.version):
            message = f"; deprecated before: {known.message}" if known and known.message else ""
            unknown[f"--{given.name}"] = fate(known, command.version) + message
        elif known.deprecated_by(command.version):
            deprecated[f"--{given.name}"] = known.message
    if unknown:
        yield Finding(
            "flags.removed",
            "error",
            f"{command} doesn't know {first_few(list(unknown))}",
            f"{_listed(unknown)}\n{command.place} It would end at once, as often as it is started.",
            f"Change the values of release {command.release.name}: without {_them(unknown)}, or with a successor.",
        )
    if deprecated:
        yield Finding(
            "flags.deprecated",
            "warning",
            f"{command} deprecates {first_few(list(deprecated))}",
            f"{_listed(deprecated)}\n{command.place} A later version won't know {_them(deprecated)}.",
            f"Change the values of release {command.release.name}: without {_them(deprecated)}, or with a successor.",
        )


def _listed(flags: dict[str, str]) -> str:
    return "\n".join(f"{flag}: {why}" for flag, why in flags.items())


def _them(flags: dict[str, str]) -> str:
    return "it" if len(flags) == 1 else "them"
