"""A controller that is to leave: whether it may, by the inventory and by what its node says. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

import yaml

from upgrader.errors import Inhibited, UsageError
from upgrader.model.cluster import Cluster, Host
from upgrader.ports import KubeObject

__all__ = ["check_etcd_servers", "control_plane_endpoint", "controller_to_remove", "own_addresses", "why_dead"]

_PORT = 6443


def controller_to_remove(cluster: Cluster, name: str) -> Host:
    """Raises UsageError for one that the inventory doesn't list, Inhibited for the only one."""
    found = next((host for host in cluster.controllers if host.name == name), None)
    if found is None:
        names = ", ".join(host.name for host in cluster.controllers)
        raise UsageError(
            f"the group `controllers` of {cluster.inventory.name} has no {name!r}: nothing was changed",
            remedy=f"Its controllers are: {names}",
        )
    if len(cluster.controllers) == 1:
        raise Inhibited(
            f"{name} is the only controller: without it there is no cluster; nothing was changed",
            remedy="Let another one join first (kubeadm join --control-plane; upgrader adopt --new-controllers).",
        )
    return found


def check_etcd_servers(name: str, own: Collection[str], servers: Iterable[str]) -> None:
    """No kube-apiserver that stays asks the leaving controller's etcd. Raises Inhibited."""
    if named := [server for server in servers if (urlsplit(server).hostname or "") in {*own, name}]:
        raise Inhibited(
            f"the kube-apiservers that stay use etcd on {name}: {', '.join(named)}; nothing was changed",
            remedy="Remove that from `etcd.servers` in values/kube-apiserver.yaml, and run `upgrader run` first.",
        )


def why_dead(name: str, node: KubeObject | None, unreachable: str, *, said: bool) -> str:
    """Why a controller is taken for dead; "" for one that answers.

    `unreachable`: why it doesn't answer over SSH, "" where it does. `said`: whether the operator says that it is gone.
    Raises Inhibited where these contradict each other.
    """
    conditions = {item["type"]: item["status"] for item in ((node or {}).get("status") or {}).get("conditions") or ()}
    if not unreachable:
        if said:
            raise Inhibited(
                f"{name} answers over SSH: it isn't dead, and what runs there must be ended; nothing was changed",
                remedy="Run it without --dead.",
            )
        return ""
    if conditions.get("Ready") == "True":
        raise Inhibited(
            f"{name} can't be reached over SSH, and its kubelet still reports: etcd and the checkpoints there would go "
            "on; nothing was changed",
            remedy=f"Repair SSH, or switch it off for good, and wait until its node is not Ready. {unreachable}",
        )
    return f"{unreachable}; its node is {'gone' if node is None else 'not Ready'}"


def own_addresses(node: KubeObject | None) -> tuple[str, ...]:
    """The addresses that a node's kubelet has registered; () for a node that is gone."""
    addresses = ((node or {}).get("status") or {}).get("addresses") or ()
    return tuple(str(item["address"]) for item in addresses if item["type"] in ("InternalIP", "ExternalIP"))


def control_plane_endpoint(kubeadm_config: KubeObject | None) -> str:
    """`HOST:PORT` of ConfigMap kubeadm-config's `controlPlaneEndpoint`; "" where there is none."""
    text = ((kubeadm_config or {}).get("data") or {}).get("ClusterConfiguration") or ""
    endpoint = str((yaml.safe_load(text) or {}).get("controlPlaneEndpoint") or "")
    without_port = endpoint and (endpoint.endswith("]") or ":" not in endpoint.rpartition("]")[2])
    return f"{endpoint}:{_PORT}" if without_port else endpoint
