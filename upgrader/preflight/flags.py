"""The components of the control plane know the flags that the run sets, and none of these is deprecated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from upgrader.model.api_lifecycle import Minor, ends_between, known_apis, newest_known
from upgrader.model.emulation import emulated_by, minor_of, minor_text
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.flag_lifecycle import fate, judged_by, known_flags
from upgrader.preflight.flag_places import flag_place
from upgrader.steps.release.planned_commands import PlannedCommand, planned_commands

__all__ = ["check_flags", "listed", "them"]

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
                f"{command.place} Its command is another program, such as a shell, that starts {command.component}.",
                "Compare its flags yourself with the output of the new version's `--help`.",
            )
        elif judged_by(command.version) is None:
            yield Finding(
                "flags.no-data",
                "unknown",
                f"{command}: its flags are unknown",
                f"{command.place} This version of upgrader doesn't know v{command.version.major}."
                f"{command.version.minor}.",
                "Use a newer upgrader; or compare the flags with the output of the new version's `--help`, and skip "
                "this finding.",
            )
        else:
            yield from _judged(command, context.values_files.get(command.release.name))
        yield from _runtime_config(command, context.observed.server)


def _judged(command: PlannedCommand, values: Path | None) -> Iterator[Finding]:
    unknown: dict[str, str] = {}
    deprecated: dict[str, str] = {}
    for given in command.flags or ():
        known = known_flags().get((command.component, given.name))
        if given.letter:
            if given.name not in _LETTERS:
                shown = given.words[0].partition("=")[0]
                unknown[shown] = "not a flag with a single dash; long names need two"
        elif known is None or not known.known_by(command.version):
            message = f"; deprecated before: {known.message}" if known and known.message else ""
            unknown[f"--{given.name}"] = fate(known, command.version) + message
        elif known.deprecated_by(command.version):
            deprecated[f"--{given.name}"] = known.message
    places = {flag: flag_place(values, command.component, flag) for flag in (*unknown, *deprecated)}
    if unknown:
        yield Finding(
            "flags.removed",
            "error",
            f"{command} doesn't know {first_few(list(unknown))}",
            f"{listed(_placed(unknown, places))}\n{command.place} The component would exit at every start "
            "(crash loop).",
            f"Change the values of release {command.release.name}: remove or replace {them(unknown)}.",
        )
    if deprecated:
        yield Finding(
            "flags.deprecated",
            "warning",
            f"{command} deprecates {first_few(list(deprecated))}",
            f"{listed(_placed(deprecated, places))}\n{command.place} A later version won't know {them(deprecated)}.",
            f"Change the values of release {command.release.name}: remove or replace {them(deprecated)}.",
        )


def _runtime_config(command: PlannedCommand, now: KubernetesVersion) -> Iterator[Finding]:
    """A version of an API that the new kube-apiserver doesn't have: at one that isn't in its program, it ends."""
    emulated = emulated_by([f"--emulated-version={command.value('emulated-version')}"])
    then = KubernetesVersion(*emulated, 0) if emulated else command.version
    lost: dict[str, str] = {}
    useless: dict[str, str] = {}
    for entry in (command.value("runtime-config") or "").split(",") if command.component == "kube-apiserver" else ():
        key, _, value = entry.strip().partition("=")
        api = "/".join(key.split("/")[:2])
        kinds = [each for (version, _), each in known_apis().items() if version == api]
        if not kinds or minor_of(then) > newest_known() or any(each.served_by(then) for each in kinds):
            continue
        switched_on = value.strip().lower() not in ("false", "f", "0")
        ends = [each.removed for each in kinds if each.removed and each.removed <= minor_of(then)]
        # What the running program doesn't serve either, it was started with nevertheless.
        worse = switched_on and (not ends or ends_between(api, now, then))
        (lost if worse else useless)[f"--runtime-config={entry.strip()}"] = _ended(ends)
    for entries, severe in ((lost, True), (useless, False)):
        if entries:
            yield Finding(
                "flags.runtime-config",
                "error" if severe else "warning",
                f"{command} doesn't serve the API versions set by {first_few(list(entries))}",
                f"{listed(entries)}\n{command.place} The component might crash-loop (`has not been registered`), or "
                "not serve that version.",
                f"Change the values of release {command.release.name}: remove {them(entries)}, or use a version that "
                f"v{command.version.major}.{command.version.minor} serves.",
            )


def _ended(ends: list[Minor]) -> str:
    return f"not served since v{minor_text(max(ends))}" if ends else "comes with a later version"


def listed(flags: Mapping[str, str]) -> str:
    """Flags or feature gates, a line for each, with what is wrong with it."""
    return "\n".join(f"{flag}: {why}" for flag, why in flags.items())


def _placed(flags: dict[str, str], places: dict[str, str]) -> dict[str, str]:
    """With the file and the line that set each, where they are known."""
    return {f"{flag} ({places[flag]})" if places[flag] else flag: why for flag, why in flags.items()}


def them(flags: Mapping[str, str]) -> str:
    """What a sentence calls them by."""
    return "it" if len(flags) == 1 else "them"
