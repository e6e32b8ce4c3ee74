"""The Ansible inventory of a cluster, as Ansible itself reads it."""

from __future__ import annotations

import getpass
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from upgrader.config import ansible_facts
from upgrader.config.dynamic_inventory import ALLOW, check_static
from upgrader.config.ssh_options import check_host_keys, options_in, resolve
from upgrader.config.yaml_document import check_syntax, shown
from upgrader.errors import ConfigError
from upgrader.model.cluster import NO_FILE, Cluster, Host
from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.model.settings import Settings

__all__ = [
    "CONTROLLER_GROUPS",
    "check_exists",
    "host_from_facts",
    "load_cluster",
    "load_hosts",
    "load_names",
    "no_controllers",
]

_GROUPS = ("controllers", "workers", "load_balancers", "surge")
"""The machines of `surge` are in no cluster yet, but their names and passwords are needed, too."""
CONTROLLER_GROUPS = ("controllers", "kube_control_plane")
"""The first one of them that has a host is the control plane; the second one is Kubespray's."""
_KUBESPRAYS_NODES = "kube_node"
"""Has the workers, and a controller on which workloads may run, too."""
_TIMEOUT_SECONDS = 60.0
_INI = re.compile(r"\s*(?:[#;].*\n\s*)*\[")
"""How an INI inventory begins, behind comments."""
_PROGRAM = re.compile(r"/[\w.+/-]+|python[\d.]*", re.ASCII)
_TRUE = ("true", "yes", "y", "on", "1", "t")


def load_cluster(settings: Settings, context: str) -> Cluster:
    """The cluster that the settings' inventory describes, reached through a context of its kubeconfig.

    Raises ConfigError.
    """
    groups = load_hosts(settings.inventory, dynamic=settings.dynamic_inventory)
    return Cluster(
        folder=settings.folder,
        kubeconfig=settings.kubeconfig,
        context=context,
        inventory=settings.inventory,
        controllers=groups["controllers"],
        workers=groups["workers"],
        load_balancers=groups["load_balancers"],
    )


def load_hosts(inventory: Path, *, dynamic: bool = False, more: Sequence[str] = ()) -> Mapping[str, tuple[Host, ...]]:
    """The hosts of each of the groups `controllers`, `workers`, `load_balancers` and `surge`, and of `more` groups
    whose hosts are logged in to. Raises ConfigError.

    An inventory of Kubespray is read with its own names of the first two, `kube_control_plane` and `kube_node`.
    `dynamic`: whether it may run code: be a program or a plugin's configuration, or use lookups.
    """
    facts = _facts(inventory, dynamic=dynamic, only_names=False, more=more)
    # Of the others, only playbooks log in to the machines: OpenSSH is not asked for theirs.
    entered = frozenset(name for group in ("controllers", *more) for name in facts["groups"].get(group, ()))
    hosts = {
        name: host_from_facts(inventory, name, known, controller=name in entered)
        for name, known in facts["hosts"].items()
    }
    return {group: tuple(hosts[name] for name in facts["groups"].get(group, ())) for group in (*_GROUPS, *more)}


def load_names(inventory: Path) -> Mapping[str, tuple[str, ...]]:
    """The names of each group's hosts, without running anything and without any variable. Raises ConfigError."""
    facts = _facts(inventory, dynamic=False, only_names=True)
    return {group: tuple(facts["groups"].get(group, ())) for group in _GROUPS}


def _facts(inventory: Path, *, dynamic: bool, only_names: bool, more: Sequence[str] = ()) -> Mapping[str, Any]:
    check_exists(inventory)
    if inventory.suffix in (".yml", ".yaml") and not os.access(inventory, os.X_OK):
        _check_yaml(inventory)
    if not dynamic:
        check_static(inventory)
    own, kubesprays = CONTROLLER_GROUPS
    instead, groups = {own: kubesprays, "workers": _KUBESPRAYS_NODES}, (*_GROUPS, *more)
    found = _read(inventory, ansible_facts.Options(str(inventory.absolute()), groups, instead, dynamic, only_names))
    facts = {**found, "groups": _own_groups(found["groups"])}
    KNOWN.learn(secret for known in facts["hosts"].values() for secret in known.get("secrets", ()))
    KNOWN.learn(str(known["become_password"]) for known in facts["hosts"].values() if known.get("become_password"))
    if not facts["groups"].get("controllers"):
        raise no_controllers(inventory)
    return facts


def _own_groups(found: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """Those of Kubespray under our names, where no host is in `controllers`."""
    own, kubesprays = CONTROLLER_GROUPS
    controllers = found.get(kubesprays, ())
    if not controllers:
        return found
    workers = [name for name in found.get(_KUBESPRAYS_NODES, ()) if name not in controllers]
    return {**found, own: controllers, "workers": found.get("workers") or workers}


def _check_yaml(inventory: Path) -> None:
    """Raise ConfigError with FILE:LINE; Ansible would list the complaints of all its plugins."""
    try:
        check_syntax(inventory)
    except ConfigError as error:
        if not _INI.match(inventory.read_text(encoding="utf-8", errors="replace")):
            raise
        other = inventory.with_suffix(".ini").name
        raise ConfigError(
            error.message,
            remedy=f"If it is an INI inventory, rename it to {other}, and add `cluster: {{inventory: {other}}}` to "
            "upgrader.yaml; or convert it to YAML: ansible-inventory --list --yaml -i FILE",
        ) from error


def check_exists(inventory: Path) -> None:
    """Raises ConfigError if there is no inventory."""
    if not inventory.exists():
        raise ConfigError(
            f"{shown(inventory)}: no such file",
            remedy="Write an Ansible inventory with a group `controllers`, or name it in `cluster.inventory`.",
        )


def no_controllers(inventory: Path) -> ConfigError:
    """The error of an inventory that names no controller."""
    return ConfigError(
        f"{shown(inventory)}: no host is in the group 'controllers'",
        remedy="Add a group `controllers` with the machines that run the control plane. The group "
        "`kube_control_plane` of a Kubespray inventory is also read. If it has Kubespray's old names, make "
        "`kube-master` a child of `kube_control_plane`, and `kube-node` a child of `kube_node`: Kubespray accepts "
        "that.",
    )


def _read(inventory: Path, options: ansible_facts.Options) -> Mapping[str, Any]:
    # -P: no imports from the script's own folder
    command = [sys.executable, "-P", ansible_facts.__file__, json.dumps(asdict(options))]
    try:
        with _environment(options) as environment:
            done = subprocess.run(
                command,
                env=environment,
                # Not where the command was started: playbooks wouldn't see an ansible.cfg there either.
                cwd="/",
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
        message = done.stderr.strip()
        raise ConfigError(
            f"{shown(inventory)}: Ansible can't read it: {message}",
            remedy=f"Write the value instead of a lookup. {ALLOW}"
            if "lookup '" in message
            else f"Try it manually: ansible-inventory -i {shown(inventory)} --list",
        )
    facts: Mapping[str, Any] = json.loads(done.stdout)
    return facts


@contextmanager
def _environment(options: ansible_facts.Options) -> Iterator[Mapping[str, str]]:
    """Ansible's; for names alone without settings and plugins of anyone's: a CI job may export the folder's own."""
    own = {"ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true", "ANSIBLE_NOCOLOR": "true"}
    if not options.run_code:
        own["ANSIBLE_INVENTORY_ENABLED"] = "yaml,ini,toml"
    if not options.only_names:
        yield {**os.environ, **own}
        return
    others = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    with tempfile.TemporaryDirectory() as home:
        config = Path(home, "ansible.cfg")
        config.touch()
        yield {**others, **own, "ANSIBLE_CONFIG": str(config), "ANSIBLE_HOME": home}


def host_from_facts(inventory: Path, name: str, known: Mapping[str, Any], *, controller: bool) -> Host:
    """A host as Ansible connects to it (see `ansible_facts`), and for a controller OpenSSH, too. Raises ConfigError."""
    where = f"{shown(inventory)}: host '{name}'"
    _check_supported(where, known)
    before, after = (
        _words(where, known, "ssh_args"),
        [word for fact in ("common_args", "extra_args") for word in _words(where, known, fact)],
    )
    options = options_in([*before, *after])
    check_host_keys(where, options.get("stricthostkeychecking", ""))
    port = str(known.get("port") or 22)
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"{where}: ansible_port {port!r} is not a port")
    address = str(known.get("address") or name)
    if address.startswith("-"):
        raise ConfigError(
            f"{where}: ansible_host '{address}' starts with a dash: ssh would treat it as an option, which can run a "
            "program",
            remedy="Write the machine's address.",
        )
    host = Host(
        name=name,
        address=address,
        user=str(known.get("user") or getpass.getuser()),
        port=int(port),
        key_file=_path(where, "ansible_ssh_private_key_file", known.get("key_file")),
        known_hosts=_known_hosts(where, options.get("userknownhostsfile", "")),
        become=_is_true(known.get("become")),
        become_password=str(known.get("become_password") or ""),
        python=_python(str(known.get("python") or "")),
    )
    if not controller:
        return host
    # In the order in which Ansible gives them to ssh: of two, the first wins.
    given = {"Port": known.get("port"), "IdentityFile": host.key_file, "User": known.get("user")}
    named = [word for option, value in given.items() if value for word in ("-o", f"{option}={_quoted(str(value))}")]
    return resolve(where, host, [*before, *named, *after])


def _python(interpreter: str) -> str:
    """As Ansible is told; where it is to look for one itself (`auto`), or for more than a program, `python3`."""
    return interpreter if _PROGRAM.fullmatch(interpreter) else "python3"


def _quoted(value: str) -> str:
    return f'"{value}"' if " " in value else value


def _is_true(value: object) -> bool:
    return str(value or "").lower() in _TRUE


def _check_supported(where: str, known: Mapping[str, Any]) -> None:
    """Refuse settings that only Ansible follows: it would reach other machines than upgrader, or as other users."""
    if known.get("host_key_checking") is not None and not _is_true(known["host_key_checking"]):
        raise ConfigError(
            f"{where}: ansible_host_key_checking is off, so an unverified machine would be trusted",
            remedy="Remove that setting, and add the host's key to known_hosts.",
        )
    ssh = (
        "Only ssh is supported, even to the machine that upgrader runs on."
        if str(known.get("connection")) in ("local", "ansible.builtin.local")
        else "Only ssh is supported. A Windows worker needn't be in the inventory: if there is a group `workers`, "
        "Kubespray's `kube_node` isn't read."
    )
    expected = {
        "connection": ("ansible_connection", ("ssh", "smart", "ansible.builtin.ssh"), ssh),
        "executable": ("ansible_ssh_executable", ("ssh", "/usr/bin/ssh"), "Only the `ssh` on PATH is supported."),
        "password": ("ansible_password", (), "Log in with a key instead."),
    }
    if _is_true(known.get("become")):
        sudo = "Only sudo to root is supported."
        expected |= {
            "become_method": ("ansible_become_method", ("sudo", "ansible.builtin.sudo"), sudo),
            "become_user": ("ansible_become_user", ("root",), sudo),
            "become_exe": ("ansible_become_exe", ("sudo", "/usr/bin/sudo"), sudo),
            "become_flags": ("ansible_become_flags", ("-H -S -n", "-n"), sudo),
        }
    for fact, (variable, supported, remedy) in expected.items():
        value = known.get(fact)
        if value and str(value) not in supported:
            told = "" if fact == "password" else f" '{value}'"
            raise ConfigError(f"{where}: {variable}{told} is not supported", remedy=remedy)


def _words(where: str, known: Mapping[str, Any], fact: str) -> list[str]:
    try:
        return shlex.split(str(known.get(fact) or ""))
    except ValueError as error:
        variable = {"ssh_args": "ansible_ssh_args"}.get(fact, f"ansible_ssh_{fact}")
        raise ConfigError(f"{where}: {variable} can't be split into words: {error}") from error


def _known_hosts(where: str, value: str) -> Path | None:
    return NO_FILE if value.lower() == "none" else _path(where, "UserKnownHostsFile", value)


def _path(where: str, variable: str, value: object) -> Path | None:
    """A file for ssh. A relative one would depend on the folder in which Ansible was started, so it is refused."""
    if not value:
        return None
    path = Path(str(value)).expanduser()
    if not path.is_absolute():
        raise ConfigError(
            f"{where}: {variable} '{value}' is relative to the folder that Ansible is started in",
            remedy=f"Write '{{{{ inventory_dir }}}}/{value}'.",
        )
    return path
