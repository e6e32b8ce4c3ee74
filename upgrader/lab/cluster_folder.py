"""Writes a lab's cluster folder, which every other command of `upgrader` needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from upgrader.lab.bastion import bastion_of, ssh_config
from upgrader.lab.existing_labs import write_atomically
from upgrader.lab.keys import known_hosts
from upgrader.lab.likeness import Likeness
from upgrader.lab.spec import Node, Placement
from upgrader.model.release import merged

__all__ = ["ssh_command", "write_access", "write_cluster", "write_values"]

_COMPONENTS = {
    "kube-apiserver": "",
    "kube-controller-manager": "controllerManager",
    "kube-scheduler": "scheduler",
    "kube-proxy": "kubeProxy",
}
"""Image → where it is in the values of its chart."""


def write_access(placement: Placement, keys: Path) -> None:
    """Write SSH keys, known_hosts, inventory, and SSH's configuration where a bastion needs one."""
    ssh = placement.folder / "ssh"
    ssh.mkdir(parents=True, exist_ok=True)
    ssh.chmod(0o700)
    write_atomically(ssh / "id_ed25519", (keys / "id_ed25519").read_text(), 0o600)
    write_atomically(ssh / "known_hosts", known_hosts(placement, keys))
    if bastion := bastion_of(placement):
        write_atomically(ssh / "id_bastion", (keys / "id_bastion").read_text(), 0o600)
        write_atomically(ssh / "config", ssh_config(placement, bastion))
    write_atomically(placement.folder / "hosts.yml", yaml.safe_dump(_inventory(placement), sort_keys=False))


def write_cluster(placement: Placement, admin_conf: str, token: str = "") -> None:
    """Write the kubeconfig, from kubeadm's admin.conf, and upgrader.yaml unless there is one.

    With `token`, the kubeconfig has no other credential.
    """
    kubeconfig = yaml.safe_load(admin_conf)
    # Only the nodes resolve the name; the certificate also has the address.
    kubeconfig["clusters"][0]["cluster"]["server"] = placement.endpoint
    if token:
        kubeconfig["users"][0]["user"] = {"token": token}
    write_atomically(placement.folder / "kubeconfig", yaml.safe_dump(kubeconfig, sort_keys=False), 0o600)
    settings = placement.folder / "upgrader.yaml"
    if not settings.exists():
        write_atomically(settings, yaml.safe_dump({"kubernetesVersion": placement.spec.kubernetes}))


def write_values(placement: Placement, *, haproxy: str, coredns: str, checkpointer: str | None) -> None:
    """Write `values/RELEASE.yaml` for each release, unless there is one: the lab's image names.

    `adopt` reads everything else (subnets, addresses, flags) from the cluster.
    """
    folder = placement.folder / "values"
    folder.mkdir(exist_ok=True)
    version = placement.spec.kubernetes
    values: dict[str, dict[str, Any]] = {
        "pod-checkpointer": {"image": _image(checkpointer)} if checkpointer else {},
        "kube-apiserver": {"kubernetesVersion": version, "haproxy": {"image": _image(haproxy)}},
        "kubernetes": {"kubernetesVersion": version, "coredns": {"image": _image(coredns)}},
    }
    if placement.spec.registry:
        _from_registry(values, placement.registry_host)
    if likeness := Likeness.parse(placement.spec.like):
        values = {
            release: dict(merged(content, likeness.values.get(release, {}))) for release, content in values.items()
        }
    for release, content in values.items():
        file = folder / f"{release}.yaml"
        if not file.exists():
            write_atomically(file, yaml.safe_dump(content, sort_keys=False))


def _from_registry(values: dict[str, dict[str, Any]], host: str) -> None:
    """Kubernetes' own images come from the registry as well. The nodes have its login, as standby pods need it."""
    for component, section in _COMPONENTS.items():
        chart = values["kube-apiserver" if component == "kube-apiserver" else "kubernetes"]
        image = {"image": {"repository": f"{host}/{component}"}}
        chart.update({section: image} if section else image)


def _image(name: str) -> dict[str, str]:
    repository, _, tag = name.rpartition(":")
    return {"repository": repository, "tag": tag}


def ssh_command(placement: Placement, node: Node) -> list[str]:
    """The ssh command that logs in to a node with the lab's key; append the command to run."""
    ssh = placement.folder / "ssh"
    options = {
        "UserKnownHostsFile": f'"{ssh / "known_hosts"}"',
        "StrictHostKeyChecking": "yes",
        "IdentitiesOnly": "yes",
        "BatchMode": "yes",
        "ConnectTimeout": "5",
        "ServerAliveInterval": "5",
        "ServerAliveCountMax": "3",
        "LogLevel": "ERROR",
    }
    flags = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    bastion = bastion_of(placement)
    # The file has the route to a machine behind a bastion; on the bastion itself, this key may run commands.
    file = str(ssh / "config") if bastion and node != bastion else "none"
    key = ["-p", str(node.ssh_port), "-i", str(ssh / "id_ed25519")]
    return ["ssh", "-F", file, *key, *flags, f"root@{node.ssh_address}"]


def _inventory(placement: Placement) -> dict[str, Any]:
    groups = {"controllers": "controller", "workers": "worker", "load_balancers": "load-balancer"}
    known_hosts_file = "-o UserKnownHostsFile='{{ inventory_dir }}/ssh/known_hosts'"
    common = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": "{{ inventory_dir }}/ssh/id_ed25519",
        "ansible_ssh_common_args": f"-o StrictHostKeyChecking=yes -o IdentitiesOnly=yes {known_hosts_file}",
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    if bastion_of(placement):
        # All settings are in SSH's own file then, as is usual.
        common["ansible_ssh_common_args"] = "-F '{{ inventory_dir }}/ssh/config'"
        del common["ansible_ssh_private_key_file"]
    children = {
        group: {
            "hosts": {node.name: {"ansible_host": node.ssh_address} for node in placement.nodes if node.role == role}
        }
        for group, role in groups.items()
    }
    return {"all": {"vars": common, "children": children}}
