"""Prints, as JSON, how Ansible connects to an inventory's hosts, with templates such as `{{ inventory_dir }}` rendered.

A program of its own (`python ansible_facts.py OPTIONS`, where OPTIONS is JSON: see `Options`): `ansible-inventory`
doesn't render templates, and importing Ansible replaces the importing process's stdout and stderr. It takes as long as
`ansible-inventory` does.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_CONNECTION = {
    "address": ("ansible_ssh_host", "ansible_host"),
    "port": ("ansible_ssh_port", "ansible_port"),
    "user": ("ansible_ssh_user", "ansible_user"),
    "key_file": ("ansible_ssh_private_key_file", "ansible_private_key_file"),
    "ssh_args": ("ansible_ssh_args",),
    "common_args": ("ansible_ssh_common_args",),
    "extra_args": ("ansible_ssh_extra_args",),
    "host_key_checking": ("ansible_ssh_host_key_checking", "ansible_host_key_checking"),
    "connection": ("ansible_connection",),
    "python": ("ansible_python_interpreter",),
    "password": ("ansible_ssh_password", "ansible_ssh_pass", "ansible_password"),
    "executable": ("ansible_ssh_executable",),
    "become": ("ansible_become",),
    "become_method": ("ansible_become_method",),
    "become_user": ("ansible_sudo_user", "ansible_become_user"),
    "become_password": ("ansible_sudo_pass", "ansible_become_pass", "ansible_become_password"),
    "become_exe": ("ansible_sudo_exe", "ansible_become_exe"),
    "become_flags": ("ansible_sudo_flags", "ansible_become_flags"),
}
"""The variables for each fact, the one that wins first: Ansible obeys the last one of its own list that has a value."""


@dataclass(frozen=True)
class Options:
    """The input of this program."""

    inventory: str
    groups: Sequence[str]
    instead: Mapping[str, str]
    """Group → another one that is read where it has no host, if the first of `groups` has none either."""
    run_code: bool
    """Whether lookups are allowed, which read files and run programs."""
    only_names: bool
    """Whether only the groups' members are wanted: no variable is read."""


def read(options: Options) -> Mapping[str, Any]:
    """`{"groups": {GROUP: [HOST, …]}, "hosts": {HOST: {…connection…, "secrets": […]}}}`; raises AnsibleError."""
    from ansible.inventory.manager import InventoryManager  # type: ignore[import-untyped]
    from ansible.parsing.dataloader import DataLoader  # type: ignore[import-untyped]

    if not options.run_code:
        _forbid_lookups()
    loader = DataLoader()
    manager = InventoryManager(loader=loader, sources=[options.inventory])

    def members_of(groups: Sequence[str]) -> dict[str, list[str]]:
        return {
            name: [host.name for host in manager.groups[name].get_hosts()] for name in groups if name in manager.groups
        }

    members = members_of(options.groups)
    if not members.get(options.groups[0]):
        members |= members_of([other for own, other in options.instead.items() if not members.get(own)])
    return {"groups": members, "hosts": {} if options.only_names else _connections(loader, manager, members)}


def _connections(loader: Any, manager: Any, members: Mapping[str, Sequence[str]]) -> Mapping[str, Mapping[str, Any]]:
    """Host → how Ansible connects to it."""
    from ansible.errors import AnsibleError  # type: ignore[import-untyped]
    from ansible.template import Templar  # type: ignore[import-untyped]
    from ansible.vars.manager import VariableManager  # type: ignore[import-untyped]

    from upgrader.model.redaction.patterns import is_secret_name

    hosts: dict[str, dict[str, Any]] = {}
    names = dict.fromkeys(name for names in members.values() for name in names)
    if names:
        _open_vaults(loader)
    variables = VariableManager(loader=loader, inventory=manager)
    defaults = _defaults() if names else {}
    for name in names:
        known = variables.get_vars(host=manager.get_host(name))
        templar = Templar(loader=loader, variables=known)
        # Tasks that fail quote them. Those that are templates are not rendered only for that.
        named = (value for key, value in known.items() if isinstance(value, str) and is_secret_name(key))
        hosts[name] = {**defaults, "secrets": [value for value in named if "{{" not in value]}
        for fact, wanted in _CONNECTION.items():
            for variable in wanted:
                if known.get(variable) is not None:
                    try:
                        hosts[name][fact] = templar.template(known[variable])
                    except AnsibleError as error:
                        raise AnsibleError(f"host '{name}': {variable}: {error}") from error
                    break
    return hosts


def _defaults() -> Mapping[str, Any]:
    """The defaults for every host: from ansible.cfg and the environment."""
    from ansible import constants  # type: ignore[import-untyped]
    from ansible.plugins.loader import connection_loader  # type: ignore[import-untyped]

    connection_loader.get("ssh", class_only=True)  # makes its options known
    found = {
        fact: constants.config.get_config_value(option, plugin_type="connection", plugin_name="ssh")
        for fact, option in (
            ("ssh_args", "ssh_args"),
            ("common_args", "ssh_common_args"),
            ("extra_args", "ssh_extra_args"),
            ("key_file", "private_key_file"),
            ("port", "port"),
        )
    }
    return {
        **found,
        "user": constants.DEFAULT_REMOTE_USER,
        "become": constants.DEFAULT_BECOME,
        "become_method": constants.DEFAULT_BECOME_METHOD,
        "become_user": constants.DEFAULT_BECOME_USER,
    }


def _open_vaults(loader: Any) -> None:
    """Passwords in inventories are usually encrypted; Ansible's settings name the key's file."""
    from ansible import constants
    from ansible.cli import CLI  # type: ignore[import-untyped]

    identities = list(constants.DEFAULT_VAULT_IDENTITY_LIST)
    if identities or constants.DEFAULT_VAULT_PASSWORD_FILE:
        loader.set_vault_secrets(CLI.setup_vault_secrets(loader, vault_ids=identities, auto_prompt=False))


def _forbid_lookups() -> None:
    from ansible.errors import AnsibleError
    from ansible.plugins.loader import lookup_loader

    def refuse(name: str, *_: object, **__: object) -> None:
        raise AnsibleError(f"lookup '{name}' reads files or runs programs, which upgrader.yaml doesn't allow")

    lookup_loader.get = refuse


def main(arguments: Sequence[str]) -> None:
    """Print what `read` finds; on failure exit 1 with Ansible's own message on stderr."""
    from ansible.errors import AnsibleError

    try:
        facts = read(Options(**json.loads(arguments[0])))
    except AnsibleError as error:
        sys.exit(f"{error}")
    json.dump(facts, sys.stdout, default=str)


if __name__ == "__main__":
    gc.set_threshold(100_000)  # what Ansible's modules are made of isn't garbage, and is most of what this makes
    main(sys.argv[1:])
