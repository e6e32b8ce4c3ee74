"""Ansible can read the pipeline's playbooks and their `undo` playbooks, and each matches a host of the inventory."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from upgrader.errors import PlaybookRefused
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.ports import Ansible, Play
from upgrader.preflight.context import PreflightContext
from upgrader.steps.plan import planned_of
from upgrader.steps.playbook.plan import PlannedPlaybook

__all__ = ["check_plays", "idle_plays"]

_SECONDS = 120.0
"""For all of them, on a machine that is busy, too."""
_UNDEFINED = "undefined"
"""Of Ansible's words for a variable without a value, such as one in `hosts` that an earlier play sets."""


def check_plays(context: PreflightContext) -> Iterator[Finding]:
    """Each is read as by `ansible-playbook --syntax-check`, and none is run. Those of surges are left out: they get
    variables that only a run has.
    """
    steps = planned_of(context.plan, PlannedPlaybook)
    named = list(dict.fromkeys(path for step in steps for path in (step.playbook, step.undo) if path is not None))
    if context.playbooks is None or not named:
        return
    inventory = context.cluster.inventory
    for playbook, found in _read(context.playbooks, inventory, named).items():
        if isinstance(found, PlaybookRefused) and _UNDEFINED in found.message:
            yield Finding(
                "playbooks.refused",
                "warning",
                f"Ansible can't read the playbook {playbook} before it runs: a variable is undefined",
                found.message,
                "If one of its plays sets the variable (set_fact, register), ignore this. Otherwise fix the playbook: "
                "the step would fail.",
            )
        elif isinstance(found, PlaybookRefused):
            command = ["ansible-playbook", "--syntax-check", "-i", str(inventory), str(playbook)]
            yield Finding(
                "playbooks.refused",
                "error",
                f"Ansible refuses the playbook {playbook}",
                found.message,
                found.remedy or f"Fix the playbook until this command succeeds: {shlex.join(command)}",
            )
        else:
            yield from idle_plays(playbook, [play.pattern for play in found if not play.hosts], len(found))


def idle_plays(playbook: Path, idle: Sequence[str], plays: int) -> Iterator[Finding]:
    """The finding for a playbook of so many plays, of which those with the patterns `idle` match no machine."""
    if idle and len(idle) == plays:
        yield Finding(
            "playbooks.no-machine",
            "error",
            f"the playbook {playbook} matches no host of the inventory",
            f"Ansible would do nothing, so the step would fail. `hosts`: {first_few(idle)}.",
            "Correct `hosts` in the playbook, or the groups of the inventory; or remove the step.",
        )
    elif idle:
        yield Finding(
            "playbooks.idle-play",
            "warning",
            f"plays of the playbook {playbook} match no host of the inventory: {first_few(idle)}",
            "Ansible skips them, and the step passes, unless an earlier play adds hosts (add_host, group_by).",
            "If they should run, correct their `hosts`, or the groups of the inventory.",
        )


_Found = tuple[Play, ...] | PlaybookRefused


def _read(playbooks: Ansible, inventory: Path, named: Sequence[Path]) -> Mapping[Path, _Found]:
    """All in one go; one by one where one of them is refused, so that the others are read, too."""
    try:
        return dict(zip(named, playbooks.plays(named, inventory=inventory, timeout_seconds=_SECONDS), strict=True))
    except PlaybookRefused as error:
        if len(named) == 1:
            return {named[0]: error}
    return {path: found for each in named for path, found in _read(playbooks, inventory, [each]).items()}
