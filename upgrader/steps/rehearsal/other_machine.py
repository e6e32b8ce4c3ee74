"""Whether a machine is one of the controllers, whatever address and name it has here."""

from __future__ import annotations

from collections.abc import Iterable

from upgrader.errors import HostError, HostUnreachable
from upgrader.model.cluster import Host
from upgrader.ports import Commands, Hosts

__all__ = ["refuse_controller"]

_MACHINE_ID = "/etc/machine-id"


def refuse_controller(hosts: Hosts, controllers: Iterable[Host], machine: Host, its: Commands, option: str) -> None:
    """Raise HostError if `machine`, which `its` reaches, has the ID of one of the controllers, or none to compare.

    `option`: what named it. A controller that can't be reached is not asked: the machine can be.
    """
    own = _machine_id(its, machine)
    if not own:
        raise HostError(
            f"{machine.name}: {_MACHINE_ID} is missing or empty, so upgrader can't tell whether this is a controller",
            remedy="Nothing was copied. Create one on that machine: systemd-machine-id-setup.",
        )
    for controller in controllers:
        try:
            same = _machine_id(hosts, controller) == own
        except HostUnreachable:
            continue
        if same:
            raise HostError(
                f"{machine.name} is the controller {controller.name}: both have the same {_MACHINE_ID}. {option} "
                "needs a machine that is not a controller",
                remedy=f"Nothing was copied. To rehearse on a controller, omit {option}. If these are two machines, "
                f"one is a clone of the other: remove {_MACHINE_ID} on {machine.name}, then run "
                "systemd-machine-id-setup there.",
            )


def _machine_id(hosts: Commands, host: Host) -> bytes:
    return (hosts.read(host, _MACHINE_ID) or b"").strip()
