"""Where the charts' kube-apiservers listen."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.fakes.kube import FakeKube
from upgrader.adopt.node_addresses import node_addresses
from upgrader.errors import Blocked
from upgrader.model.cluster import Cluster, Host
from upgrader.ports import Kind

NODES = Kind("v1", "nodes", namespaced=False)


def test_address_is_the_nodes_own() -> None:
    """SSH may use a public address or a name; a node without an address of its own is refused."""
    kube, folder = FakeKube(), Path("/c")
    host = Host("controller-1", "bastion.example.org")
    cluster = Cluster(folder, folder / "kubeconfig", "", folder / "hosts.yml", (host,))
    addresses = [{"type": "Hostname", "address": "controller-1"}, {"type": "InternalIP", "address": "10.0.0.2"}]
    kube.put(NODES, {"metadata": {"name": "controller-1"}, "status": {"addresses": addresses}})
    assert node_addresses(kube, cluster) == ("10.0.0.2",)
    kube.put(NODES, {"metadata": {"name": "controller-1"}, "status": {"addresses": addresses[:1]}})
    with pytest.raises(Blocked, match="controller-1 has no InternalIP"):
        node_addresses(kube, cluster)
