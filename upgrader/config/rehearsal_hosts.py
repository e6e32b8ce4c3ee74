"""The machines on which rehearsals may run instead of on a controller: those of the inventory's group `rehearsal`."""

from __future__ import annotations

from upgrader.config.inventory import load_hosts
from upgrader.config.yaml_document import shown
from upgrader.errors import UsageError
from upgrader.model.cluster import Host
from upgrader.model.settings import Settings

__all__ = ["GROUP", "rehearsal_host"]

GROUP = "rehearsal"


def rehearsal_host(settings: Settings, name: str) -> Host:
    """The host of this name. Raises UsageError if the group doesn't have it, or if it is a controller; ConfigError."""
    groups = load_hosts(settings.inventory, dynamic=settings.dynamic_inventory, more=(GROUP,))
    found = {host.name: host for host in groups[GROUP]}
    if name not in found:
        there = f"has {', '.join(found)}" if found else "is missing or empty"
        raise UsageError(
            f"--on {name}: no host {name} is in the group '{GROUP}' of {shown(settings.inventory)}, which {there}",
            remedy="Add the machine, which gets a copy of the cluster's data for the rehearsal: "
            f"{GROUP}: {{hosts: {{{name}: {{ansible_host: ADDRESS}}}}}}",
        )
    host = found[name]
    for controller in groups["controllers"]:
        if controller.name == name or (controller.address, controller.port) == (host.address, host.port):
            raise UsageError(
                f"--on {name}: this is the controller {controller.name}, but --on needs a machine that is not a "
                "controller",
                remedy=f"To rehearse on a controller, omit --on. Otherwise, remove {name} from the group '{GROUP}'.",
            )
    return host
