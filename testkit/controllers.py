"""Controllers that are added to and removed from a lab: queries, and edits of the cluster folder."""

from __future__ import annotations

from pathlib import Path

import yaml

from testkit.command import upgrader
from testkit.lab_cluster import LabCluster
from upgrader.ports import Kind

__all__ = ["CONTROLLERS", "add_to_inventory", "etcd_names", "nodes_of", "on_node", "remove_from_inventory"]

CONTROLLERS = ("controller-1", "controller-2", "controller-3")
_PODS = Kind("v1", "pods")
_MEMBERS = """
import json, ssl, urllib.request
pki = "/etc/kubernetes/pki/etcd/"
tls = ssl.create_default_context(cafile=pki + "ca.crt")
tls.load_cert_chain(pki + "healthcheck-client.crt", pki + "healthcheck-client.key")
answer = urllib.request.urlopen("https://127.0.0.1:2379/v3/cluster/member/list", b"{}", 10, context=tls)
print(*sorted(member.get("name", "") for member in json.load(answer)["members"]))
"""


def add_to_inventory(cluster: LabCluster, name: str, line: dict[str, str]) -> None:
    """Add a controller to `hosts.yml`, as its operator does."""
    _inventory(cluster.folder / "hosts.yml", name, line)


def remove_from_inventory(cluster: LabCluster, name: str) -> dict[str, str]:
    """Remove a controller's line from `hosts.yml`; returns it."""
    return _inventory(cluster.folder / "hosts.yml", name, None)


def _inventory(file: Path, name: str, line: dict[str, str] | None) -> dict[str, str]:
    inventory = yaml.safe_load(file.read_text())
    hosts = inventory["all"]["children"]["controllers"]["hosts"]
    before: dict[str, str] = hosts.pop(name, {})
    if line is not None:
        hosts[name] = line
    file.write_text(yaml.safe_dump(inventory, sort_keys=False))
    return before


def on_node(cluster: LabCluster, node: str, script: str) -> str:
    """Standard output of a shell script on a node; it must succeed."""
    ended = upgrader("-C", cluster.home, "lab", "shell", node, "--name", cluster.name, "--", script)
    assert ended.exit_code == 0, ended
    return ended.stdout


def nodes_of(cluster: LabCluster, component: str) -> list[str]:
    """The nodes on which pods of a release's Deployment are Ready, one for each pod; without static pods."""
    found = []
    for pod in cluster.kube.list(_PODS, "kube-system", labels=f"app.kubernetes.io/name={component}"):
        conditions = {entry["type"]: entry["status"] for entry in pod["status"].get("conditions", ())}
        static = "kubernetes.io/config.mirror" in (pod["metadata"].get("annotations") or {})
        if conditions.get("Ready") == "True" and not static:
            found.append(pod["spec"]["nodeName"])
    return sorted(found)


def etcd_names(cluster: LabCluster, node: str) -> list[str]:
    """The members of etcd, as the member on that node lists them."""
    return on_node(cluster, node, f"python3 - <<'END'\n{_MEMBERS}\nEND\n").split()
