"""`upgrader controllers`: who belongs to the control plane."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upgrader.cli.command_groups import GroupOfWholeLines
from upgrader.cli.command_line import EVENTS, TAKE_OVER, YES, front_end
from upgrader.cli.notices import say
from upgrader.cli.questions import conclude, confirm
from upgrader.errors import Blocked

if TYPE_CHECKING:
    from upgrader.app.controller_removal import LeavingController

__all__ = ["controllers"]


@click.group(cls=GroupOfWholeLines)
def controllers() -> None:
    """Remove controllers. To add one: `upgrader adopt --new-controllers`."""


@controllers.command()
@click.argument("node")
@click.option("--dead", is_flag=True, help="The machine is permanently gone, with its disk.")
@YES
@TAKE_OVER
@EVENTS
@click.pass_obj
def remove(folder: Path, node: str, dead: bool, yes: bool, take_over: bool) -> None:
    """Remove the controller NODE from the control plane of an adopted cluster.

    Removes its control-plane pods, its checkpoints and its etcd member, in an order in which no client loses a request.
    The node stays, without the control-plane label; the node of a dead machine is deleted. Refused if etcd would lose
    its quorum. If it is interrupted, run it again.
    """
    shown = front_end()  # before the imports, which take seconds
    from upgrader.app.controller_removal import leaving_controller
    from upgrader.app.values_edit import write_edited
    from upgrader.cli.ui.proposed_steps import print_found, print_steps

    with leaving_controller(folder, node, shown, dead=dead) as leaving:
        for line in _about(leaving):
            say(line)
        print_found(leaving.findings)
        leaving.check_allowed()
        if leaving.dead and not dead:
            _ask_whether_dead(node, yes=yes)
        if leaving.files:
            confirm("Write these files?", yes=yes)
        for file, text in leaving.files.items():
            write_edited(file, text)
        with leaving.propose(take_over=take_over) as proposed:
            print_steps(proposed.pipeline)
            confirm(f"Remove {node}?", yes=yes)
            finished = proposed.execute()
            if finished.error is None:
                for line in _left_to_do(leaving):
                    say(line)
            conclude(finished)


def _ask_whether_dead(node: str, *, yes: bool) -> None:
    if yes:
        raise Blocked(
            f"{node} doesn't answer, and --yes doesn't confirm that its machine is gone; nothing was changed",
            remedy="If it is permanently gone, add --dead.",
        )
    confirm(f"Is the machine of {node} permanently gone, with its disk?", yes=False)


def _about(leaving: LeavingController) -> Iterator[str]:
    name = leaving.host.name
    if leaving.dead:
        yield f"{name} is dead: {leaving.dead}"
    yield f"If clients use a load balancer of your own without health checks, remove {name} from it first."
    if leaving.member.member and leaving.member.left % 2 == 0:
        yield (f"etcd will have {leaving.member.left} members, and lose quorum when one fails: add a controller soon.")
    for file in leaving.files:
        yield f"Will write the number of controllers to {file.relative_to(leaving.folder)}"


def _left_to_do(leaving: LeavingController) -> Iterator[str]:
    name, inventory = leaving.host.name, leaving.staying.inventory.name
    yield f"Now remove {name} from the group `controllers` of {inventory}: runs are blocked until then."
    if not leaving.dead:
        yield f"Then run `kubeadm reset` on {name} and `kubectl delete node {name}`; or keep it as a worker."
