"""A lab with a spare machine, and the playbooks with which it joins while a pool is upgraded."""

from __future__ import annotations

import sys
from typing import Any

import yaml

from testkit.command import REPOSITORY
from testkit.lab_cluster import LabCluster, until
from upgrader.lab.kubeadm_config import join_registration
from upgrader.lab.lifecycle import Lab
from upgrader.ports import Kind

__all__ = ["spare_machine", "surge_settings"]

_NODES = Kind("v1", "nodes", namespaced=False)
_EXAMPLES = REPOSITORY / "playbooks" / "examples"


def spare_machine(cluster: LabCluster, name: str) -> None:
    """Remove a worker from the cluster: from then on it is in the inventory's group `surge`."""
    cluster.lab("leave", name)
    until(f"{name} to be no node", lambda: cluster.kube.get(_NODES, name) is None, timeout_seconds=30)
    file = cluster.folder / "hosts.yml"
    inventory = yaml.safe_load(file.read_text())
    groups = inventory["all"]["children"]
    placement = Lab.find(cluster.name).placement
    registration = join_registration(placement, placement.node(name))
    arguments = registration.pop("kubeletExtraArgs")
    variables = {"surge_node_registration": registration, "surge_kubelet_arguments": arguments}
    groups["surge"] = {"hosts": {name: {**groups["workers"]["hosts"].pop(name), **variables}}}
    file.write_text(yaml.safe_dump(inventory, sort_keys=False))


def surge_settings(cluster: LabCluster) -> dict[str, Any]:
    """`surge` of a pool: the examples that come with upgrader, and the pod network, for which labs have no plugin."""
    lab = [sys.executable, "-m", "upgrader", "lab", "connect", "--name", cluster.name]
    plays = [
        {"name": "Have it join", "ansible.builtin.import_playbook": str(_EXAMPLES / "add-spare-nodes.yml")},
        {
            "name": "Connect its pods",
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            # The inventory's variables are for its own hosts: they name its folder, which localhost doesn't have.
            "vars": {"ansible_ssh_private_key_file": "", "ansible_ssh_common_args": ""},
            "tasks": [{"name": "Connect", "ansible.builtin.command": {"argv": lab}}],
        },
    ]
    add = cluster.folder / "add-nodes.yml"
    add.write_text(yaml.safe_dump(plays, sort_keys=False))
    return {"nodes": 1, "add": add.name, "remove": str(_EXAMPLES / "remove-spare-nodes.yml"), "deadline": "4m"}
