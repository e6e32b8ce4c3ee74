"""Prints, as JSON, how Ansible connects to an inventory's hosts, with templates such as `{{ inventory_dir }}` rendered.

A program of its own (`python ansible_facts.py INVENTORY GROUP…`): `ansible-inventory` doesn't render templates, and
importing Ansible replaces the importing process's stdout and stderr. It takes as long as `ansible-inventory` does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

_CONNECTION = {
    "address": ("ansible_host", "ansible_ssh_host"),
    "port": ("ansible_port", "ansible_ssh_port"),
    "user": ("ansible_user", "ansible_ssh_user"),
    "key_file": ("ansible_ssh_private_key_file", "ansible_private_key_file"),
    "common_args": ("ansible_ssh_common_args",),
    "extra_args": ("ansible_ssh_extra_args",),
    "become": ("ansible_become",),
}


def read(inventory: str, groups: Sequence[str]) -> Mapping[str, Any]:
    """`{"groups": {GROUP: [HOST, …]}, "hosts": {HOST: {…connection…}}}`; raises AnsibleError."""
    from ansible import constants  # type: ignore[import-untyped]
    from ansible.errors import AnsibleError  # type: ignore[import-untyped]
    from ansible.inventory.manager import InventoryManager  # type: ignore[import-untyped]
    from ansible.parsing.dataloader import DataLoader  # type: ignore[import-untyped]
    from ansible.template import Templar  # type: ignore[import-untyped]
    from ansible.vars.manager import VariableManager  # type: ignore[import-untyped]

    loader = DataLoader()
    manager = InventoryManager(loader=loader, sources=[inventory])
    variables = VariableManager(loader=loader, inventory=manager)
    members = {name: [h.name for h in manager.groups[name].get_hosts()] for name in groups if name in manager.groups}
    hosts: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(name for names in members.values() for name in names):
        known = variables.get_vars(host=manager.get_host(name))
        templar = Templar(loader=loader, variables=known)
        hosts[name] = {"user": constants.DEFAULT_REMOTE_USER}
        for fact, names in _CONNECTION.items():
            for variable in names:
                if variable in known:
                    try:
                        hosts[name][fact] = templar.template(known[variable])
                    except AnsibleError as error:
                        raise AnsibleError(f"host '{name}': {variable}: {error}") from error
                    break
    return {"groups": members, "hosts": hosts}


def main(arguments: Sequence[str]) -> None:
    """Print what `read` finds; on failure exit 1 with Ansible's own message on stderr."""
    from ansible.errors import AnsibleError

    try:
        facts = read(arguments[0], arguments[1:])
    except AnsibleError as error:
        sys.exit(f"{error}")
    json.dump(facts, sys.stdout, default=str)


if __name__ == "__main__":
    main(sys.argv[1:])
