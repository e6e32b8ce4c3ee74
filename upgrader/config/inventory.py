"""The Ansible inventory of a cluster, as Ansible itself reads it."""

from __future__ import annotations

import getpass
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from upgrader.config import ansible_facts
from upgrader.config.yaml_document import check_syntax, shown
from upgrader.errors import ConfigError
from upgrader.model.cluster import Cluster, Host
from upgrader.model.settings import Settings

__all__ = ["load_cluster", "load_hosts"]

_GROUPS = ("controllers", "workers", "load_balancers")
_TIMEOUT_SECONDS = 60.0


def load_cluster(settings: Settings, context: str) -> Cluster:
    """The cluster that the settings' inventory describes, reached through a context of its kubeconfig.

    Raises ConfigError.
    """
    groups = load_hosts(settings.inventory)
    return Cluster(
        folder=settings.folder,
        kubeconfig=settings.kubeconfig,
        context=context,
        inventory=settings.inventory,
        controllers=groups["controllers"],
        workers=groups["workers"],
        load_balancers=groups["load_balancers"],
    )


def load_hosts(inventory: Path) -> Mapping[str, tuple[Host, ...]]:
    """The hosts of each of the groups `controllers`, `workers` and `load_balancers`. Raises ConfigError."""
    if not inventory.exists():
        raise ConfigError(
            f"{shown(inventory)}: no such file",
            remedy="Write an Ansible inventory with a group `controllers`, or name it in `cluster.inventory`.",
        )
    if inventory.suffix in (".yml", ".yaml") and not os.access(inventory, os.X_OK):
        check_syntax(inventory)  # reports FILE:LINE; Ansible would list the complaints of all its plugins
    facts = _facts(inventory)
    hosts = {name: _host(inventory, name, known) for name, known in facts["hosts"].items()}
    groups = {group: tuple(hosts[name] for name in facts["groups"].get(group, ())) for group in _GROUPS}
    if not groups["controllers"]:
        raise ConfigError(
            f"{shown(inventory)}: no host is in the group 'controllers'",
            remedy="Put the machines that run the control plane into a group of that name.",
        )
    return groups


def _facts(inventory: Path) -> Mapping[str, Any]:
    # -P: no imports from the script's own folder
    command = [sys.executable, "-P", ansible_facts.__file__, str(inventory), *_GROUPS]
    environment = {**os.environ, "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true", "ANSIBLE_NOCOLOR": "true"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(
            f"{shown(inventory)}: Ansible did not finish reading it in {_TIMEOUT_SECONDS:.0f} s",
            remedy=f"Try it manually: ansible-inventory -i {shown(inventory)} --list",
        ) from error
    if done.returncode != 0:
        raise ConfigError(
            f"{shown(inventory)}: Ansible can't read it: {done.stderr.strip()}",
            remedy=f"Try it manually: ansible-inventory -i {shown(inventory)} --list",
        )
    facts: Mapping[str, Any] = json.loads(done.stdout)
    return facts


def _host(inventory: Path, name: str, known: Mapping[str, Any]) -> Host:
    where = f"{shown(inventory)}: host '{name}'"
    options = _ssh_options(where, f"{known.get('common_args') or ''} {known.get('extra_args') or ''}")
    port = str(known.get("port") or 22)
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"{where}: ansible_port {port!r} is not a port")
    return Host(
        name=name,
        address=str(known.get("address") or name),
        user=str(known.get("user") or getpass.getuser()),
        port=int(port),
        key_file=_path(where, "ansible_ssh_private_key_file", known.get("key_file")),
        known_hosts=_path(where, "UserKnownHostsFile", options.get("userknownhostsfile")),
        become=str(known.get("become", "")).lower() in ("true", "yes", "y", "on", "1", "t"),
    )


def _path(where: str, variable: str, value: object) -> Path | None:
    """A file for ssh. A relative one would depend on the folder in which Ansible was started, so it is refused."""
    if not value:
        return None
    path = Path(str(value)).expanduser()
    if not path.is_absolute():
        raise ConfigError(
            f"{where}: {variable} '{value}' depends on the folder that Ansible is started in",
            remedy=f"Write '{{{{ inventory_dir }}}}/{value}'.",
        )
    return path


def _ssh_options(where: str, arguments: str) -> Mapping[str, str]:
    """ssh's `-o NAME=VALUE` options, names in lower case. As in ssh, the first of two equal options wins."""
    try:
        words = iter(shlex.split(arguments))
    except ValueError as error:
        raise ConfigError(f"{where}: ansible_ssh_common_args can't be split into words: {error}") from error
    options: dict[str, str] = {}
    for word in words:
        if word.startswith("-o"):
            option = (word[2:] or next(words, "")).strip()
            name, *values = re.split(r"[=\s]+", option)
            options.setdefault(name.lower(), values[0] if values else "")
    return options
