"""`upgrader adopt`: from kubeadm's static pods into the charts, and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upgrader.cli.command_line import EVENTS, TAKE_OVER, YES, front_end
from upgrader.cli.notices import say
from upgrader.cli.questions import confirm, start
from upgrader.errors import UsageError

if TYPE_CHECKING:
    from upgrader.app.adoption import Adoption
    from upgrader.app.new_controllers import FoundControllers

__all__ = ["adopt", "adopt_cluster"]


@click.command()
@click.option("--undo", is_flag=True, help="Restore kubeadm's own static pods and remove the releases.")
@click.option(
    "--new-controllers", is_flag=True, help="Adopt controllers that `kubeadm join` added to an adopted cluster."
)
@YES
@TAKE_OVER
@EVENTS
@click.pass_obj
def adopt(folder: Path, undo: bool, new_controllers: bool, yes: bool, take_over: bool) -> None:
    """Move a kubeadm control plane into Helm charts, at its current version.

    First shows what it will do, and whether and for how long the API will be unreachable. If it is interrupted, run it
    again. Values that the cluster folder lacks are derived from kubeadm's files.
    """
    if undo and new_controllers:
        raise UsageError("--undo and --new-controllers can't be combined", remedy="--undo restores all controllers.")
    if new_controllers:
        _adopt_new(folder, yes=yes, take_over=take_over)
    elif undo:
        _undo(folder, yes=yes, take_over=take_over)
    else:
        adopt_cluster(folder, yes=yes, take_over=take_over)


def adopt_cluster(folder: Path, *, yes: bool, take_over: bool) -> None:
    """Adopt a kubeadm control plane, and say what that does; nothing is done to one that is adopted."""
    shown = front_end()  # before the imports, which take seconds

    from upgrader.adopt.derive import about_restored_servers, about_source_addresses
    from upgrader.adopt.leaders_addresses import about_leaders_addresses
    from upgrader.adopt.other_versions import about_other_versions
    from upgrader.adopt.values_files import kept_as, write_values
    from upgrader.app.adoption import adoption
    from upgrader.cli.ui.proposed_steps import print_steps

    with adoption(folder, shown) as found:
        versions = about_other_versions(found.facts, found.version)
        restored = about_restored_servers(found.facts, found.derived.values["kube-apiserver"])
        api = (_about_the_api(found), about_source_addresses(found.facts), restored)
        for line in (*api, about_leaders_addresses(found.facts), *_about_flags(found), *versions):
            if line:
                say(line)
        changed = found.changed_files()
        for file in changed:
            kept = f"; the current file is kept as {kept_as(file).name}" if file.exists() else ""
            say(f"Will write {file.relative_to(folder)}{kept}")
        if changed:
            confirm("Write these files?", yes=yes)
        for file, text in changed.items():
            write_values(file, text)
        with found.propose(take_over=take_over) as proposed:
            if proposed.needless:
                say(proposed.needless)
                return
            print_steps(proposed.pipeline, proposed.findings)
            proposed.check_allowed()
            start(proposed, yes=yes)


def _adopt_new(folder: Path, *, yes: bool, take_over: bool) -> None:
    shown = front_end()  # before the imports, which take seconds
    from upgrader.app.new_controllers import found_controllers
    from upgrader.app.values_edit import write_edited
    from upgrader.cli.ui.proposed_steps import print_found, print_steps

    with found_controllers(folder, shown) as found:
        for line in _about_new(found):
            say(line)
        print_found(found.findings)
        found.check_allowed()
        if found.files:
            confirm("Write these files?", yes=yes)
        for file, text in found.files.items():
            write_edited(file, text)
        with found.propose(take_over=take_over) as proposed:
            if not proposed.changes:
                say("Nothing to do: every controller is adopted.")
                return
            print_steps(proposed.adoption.pipeline)
            start(proposed.adoption, yes=yes)


def _about_new(found: FoundControllers) -> Iterator[str]:
    if found.new:
        yield f"To adopt: {', '.join(each.host.name for each in found.new)}"
        yield "If clients use a load balancer of your own, add the new controllers to it."
    for component, parts in found.parts_that_go.items():
        yield f"{component} will run as in the release, without kubeadm's {', '.join(parts)}"
    for file in found.files:
        yield f"Will write the number of controllers to {file.relative_to(found.folder)}"


def _undo(folder: Path, *, yes: bool, take_over: bool) -> None:
    shown = front_end()  # before the imports, which take seconds
    from upgrader.app.adoption import propose_undo
    from upgrader.cli.ui.proposed_steps import print_steps

    with propose_undo(folder, shown, take_over=take_over) as proposed:
        if proposed.needless:
            say(proposed.needless)
            return
        print_steps(proposed.pipeline, proposed.findings)
        proposed.check_allowed()
        start(proposed, yes=yes)


def _about_flags(found: Adoption) -> Iterator[str]:
    """The flags that change, by component."""
    by_component: dict[str, list[str]] = {}
    for change in found.derived.changes:
        by_component.setdefault(change.component, []).append(str(change))
    for component, changes in by_component.items():
        yield f"{component} keeps its flags, except: {', '.join(changes)}"


def _about_the_api(found: Adoption) -> str:
    if not found.restarts:
        return "The API stays reachable throughout: kube-apiserver shares its port, so its successor takes over."
    names = ", ".join(host.name for host in found.restarts)
    if len(found.facts.controllers) == 1:
        return (
            f"The API will be unreachable once, for about 40 s: kube-apiserver on {names} restarts to share its port."
        )
    return (
        f"kube-apiserver on {names} must restart to share its port, one at a time, about 40 s each: behind a load "
        "balancer with health checks the API stays reachable."
    )
