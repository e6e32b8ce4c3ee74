"""What a campaign asks of a cluster, of a real API server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from testkit.api_servers import api_servers
from testkit.lab_cluster import OLD, until
from upgrader.adapters.kube import KubeAdapter
from upgrader.fleet.clusters import ask_traits, requests_answered
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS, NAMESPACES, NODES, WORKLOADS


@dataclass(frozen=True)
class Cluster:
    """An API server, as a campaign and as its administrator see it."""

    kubeconfig: Path
    kube: KubeAdapter


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with api_servers(tmp_path_factory.mktemp("cluster")) as servers, servers.serving(OLD) as kube:
        until("kube-system", lambda: kube.get(NAMESPACES, "kube-system") is not None, timeout_seconds=60)
        yield Cluster(servers.kubeconfig(), kube)


def test_what_a_cluster_is_made_of(cluster: Cluster) -> None:
    """Nodes and the DaemonSets of all namespaces are read as the API server has them, and so is kube-proxy's mode."""
    kube = cluster.kube
    kube.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1"}})
    assert set(ask_traits(cluster.kubeconfig)) == {"size 1 node", "CNI without a DaemonSet", "no kube-proxy DaemonSet"}
    kube.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "network"}})
    for name, namespace, folder in (("cilium", "network", "/etc/cni/net.d"), ("kube-proxy", "kube-system", "/run")):
        container = {"name": name, "image": f"registry.example:5000/{name}:v1"}
        volumes = [{"name": "host", "hostPath": {"path": folder}}]
        spec = {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container], "volumes": volumes},
            },
        }
        kube.create(
            WORKLOADS["DaemonSet"],
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec},
            namespace,
        )
    kube.create(
        CONFIG_MAPS,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kube-proxy"},
            "data": {"config.conf": "mode: nftables\n"},
        },
        "kube-system",
    )
    assert set(ask_traits(cluster.kubeconfig)) == {"size 1 node", "CNI cilium v1", "kube-proxy mode nftables"}


def test_requests_of_one_process(cluster: Cluster) -> None:
    """The same process has the same name at each reading, and has answered more; it says when it has started."""
    first = requests_answered(cluster.kubeconfig)
    ask_traits(cluster.kubeconfig)
    second = requests_answered(cluster.kubeconfig)
    assert (second.server, second.servers) == (first.server, 1) and second.requests > first.requests
    assert first.started_after(datetime(2020, 1, 1, tzinfo=UTC))
    assert not first.started_after(datetime.fromtimestamp(time.time(), UTC))
