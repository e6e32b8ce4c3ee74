"""Fills a lab's cluster with the objects of a large one, and keeps its controllers from tidying them up."""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.large.etcd import Etcd
from bench.large.objects import NAMESPACES, Sizes, config_maps, nodes, pods
from testkit.lab_cluster import LabCluster, until
from upgrader.ports import Kind, KubeObject

__all__ = ["count", "fill"]

NODES = Kind("v1", "nodes", namespaced=False)
PODS = Kind("v1", "pods")
CONFIG_MAPS = Kind("v1", "configmaps")
_NAMESPACES = Kind("v1", "namespaces", namespaced=False)
_LEASES = Kind("coordination.k8s.io/v1", "leases")
_SYSTEM = "kube-system"
_LEADER = "kube-controller-manager"
_CONTROLLER = "controller-1"
_SEEN_SECONDS = 600.0
_RESTART_SECONDS = 120.0
_ETCD = "/etc/kubernetes/manifests/etcd.yaml"
_QUOTA = "--quota-backend-bytes"


def fill(cluster: LabCluster, sizes: Sizes) -> None:
    """Returns once the API server lists all of them."""
    _make_room(cluster)
    _lead(cluster)
    kube = cluster.kube
    for name in NAMESPACES:
        kube.apply(_NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    real: Any = kube.get(NODES, _CONTROLLER)
    address = next(item["address"] for item in real["status"]["addresses"] if item["type"] == "InternalIP")
    ordinary, daemon = _pod(cluster, "k8s-app=kube-dns"), _pod(cluster, "k8s-app=kube-proxy")
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as keys, closing(Etcd(cluster, address, Path(keys))) as etcd:
        written = etcd.put(nodes(real, sizes.nodes))
        written += etcd.put(pods(ordinary, daemon, sizes.pods, sizes.nodes))
        written += etcd.put(config_maps(sizes.config_maps))
    print(f"wrote {written} objects in {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    until(
        "the API server to list them all",
        lambda: all(kube.count(kind) >= number for kind, number in _wanted(sizes)),
        timeout_seconds=_SEEN_SECONDS,
    )


def count(cluster: LabCluster) -> dict[str, int]:
    """How many objects of each kind the API server has."""
    return {kind.plural: cluster.kube.count(kind) for kind in (NODES, PODS, CONFIG_MAPS)}


def _wanted(sizes: Sizes) -> tuple[tuple[Kind, int], ...]:
    return (NODES, sizes.nodes), (PODS, sizes.pods), (CONFIG_MAPS, sizes.config_maps)


def _make_room(cluster: LabCluster) -> None:
    """Give etcd 8 GiB, as large clusters do: 2 GiB are its default, and less than the objects may need."""
    change = f"grep -q -e {_QUOTA} {_ETCD} || sed -i 's/^    - etcd$/&\\n    - {_QUOTA}={8 << 30}/' {_ETCD}"
    flags = "tr '\\0' ' ' < /proc/$(pidof etcd)/cmdline || true"
    cluster.on_controller("sh", "-c", change)
    until(
        "etcd to run with more room",
        lambda: _QUOTA in cluster.on_controller("sh", "-c", flags) and cluster.kube.count(NODES) > 0,
        timeout_seconds=_RESTART_SECONDS,
    )


def _lead(cluster: LabCluster) -> None:
    """Hold the Lease by which one kube-controller-manager leads: it stays Ready, and changes nothing.

    It would find the nodes without heartbeats, and evict their pods.
    """
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
    spec = {"holderIdentity": "bench", "leaseDurationSeconds": 86_400, "acquireTime": now, "renewTime": now}
    manifest = {
        "apiVersion": _LEASES.api_version,
        "kind": "Lease",
        "metadata": {"name": _LEADER, "namespace": _SYSTEM},
        "spec": spec,
    }
    cluster.kube.apply(_LEASES, manifest, _SYSTEM)


def _pod(cluster: LabCluster, labels: str) -> KubeObject:
    return cluster.kube.list(PODS, _SYSTEM, labels=labels)[0]
