"""The controllers' container runtime is one that the pod-checkpointer can ask.

That starts the control plane after a power cut, and knows containerd alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.ports import Hosts, Kind, Kube

__all__ = ["check_container_runtime"]

_NODES = Kind("v1", "nodes", namespaced=False)
_FOLDER, _CONTAINERD = "/run/containerd", "containerd://"
_THERE = '[ -S "$1" ]'


def check_container_runtime(kube: Kube, hosts: Hosts, controllers: Iterable[Host], values: Mapping[str, Any]) -> None:
    """`values`: the operator's for the release `pod-checkpointer`. Raises Blocked, ApiError and HostError.

    Before the first step: on a single controller that interrupts the API, to share its port.
    """
    socket = f"{str(values.get('containerdFolder') or _FOLDER).rstrip('/')}/containerd.sock"
    for host in controllers:
        status = (kube.get(_NODES, host.name) or {}).get("status") or {}
        runtime = str((status.get("nodeInfo") or {}).get("containerRuntimeVersion") or "")
        if runtime and not runtime.startswith(_CONTAINERD):
            raise Blocked(
                f"{host.name} uses the container runtime {runtime}, but the pod-checkpointer, which restores the "
                "control plane after a power cut, supports only containerd; nothing was changed",
                remedy="Switch the controllers to containerd first, one at a time.",
            )
        if hosts.run(host, ["sh", "-c", _THERE, "sh", socket], check=False).exit_status:
            raise Blocked(
                f"{host.name}: containerd's socket {socket}, which the pod-checkpointer uses, does not exist; nothing "
                "was changed",
                remedy="Set `containerdFolder` in values/pod-checkpointer.yaml to the folder of containerd.sock. On "
                f"{host.name}: grep container-runtime-endpoint /var/lib/kubelet/kubeadm-flags.env",
            )
