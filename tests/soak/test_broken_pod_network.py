"""Standby pods of the leader-elected components, while no pod network works."""

from __future__ import annotations

import json

from testkit.lab_cluster import OLD, LabCluster, until
from upgrader.ports import Kind


def test_a_broken_pod_network_keeps_no_leader_from_starting(cluster: LabCluster) -> None:
    """Without a CNI configuration and after a power cut, controller-manager's and scheduler's own pods can't start:
    their standby pods do, on the node's network, and hold the Leases until the network is back.
    """
    until("a checkpoint on the node's network", lambda: _on_host(cluster), timeout_seconds=90)
    cluster.on_controller("sh", "-c", "cd /etc/cni/net.d && for f in *; do mv $f $f.off; done")
    try:
        cluster.crash_and_boot()
        until("its standby pod", lambda: "manager" in str(cluster.standby_pods()), timeout_seconds=240)
        # On the node's network a pod's host name, which begins its identity, is the node's.
        until(
            "controller-manager's standby pod to lead",
            lambda: _leader(cluster).startswith("controller-1_"),
            timeout_seconds=240,
        )
    finally:
        cluster.on_controller("sh", "-c", "cd /etc/cni/net.d && for f in *.off; do mv $f ${f%.off}; done")
    cluster.wait_until_settled(OLD)


def _on_host(cluster: LabCluster) -> bool:
    folder = "/etc/kubernetes/checkpointer/workloads/kube-system.kube-controller-manager/generations"
    newest = f"cat $(ls -d {folder}/[0-9]* | sort -V | tail -1)/manifest.json"
    return bool(json.loads(cluster.on_controller("sh", "-c", newest))["spec"].get("hostNetwork"))


def _leader(cluster: LabCluster) -> str:
    found = cluster.kube.get(Kind("coordination.k8s.io/v1", "leases"), "kube-controller-manager", "kube-system")
    return str(found["spec"].get("holderIdentity", "")) if found else ""
