"""Pods whose addresses don't belong to their node."""

from __future__ import annotations

from typing import Any

from tests.unit.preflight.conftest import World
from upgrader.preflight.context import NODES, PODS
from upgrader.preflight.pod_addresses import check_pod_addresses


def nodes(world: World, *names: str) -> None:
    """Nodes with pod CIDRs of both families."""
    for number, name in enumerate(names):
        found = world.node(name)
        found["spec"] = {"podCIDRs": [f"10.244.{number}.0/24", f"fd00:{number}::/64"]}
        world.kube.put(NODES, found)


def pod(world: World, node: str, *addresses: str, phase: str = "Running", **spec: Any) -> None:
    """A pod of a node."""
    meta = {"name": f"web-{'-'.join(addresses) or node}".replace(":", "-"), "namespace": "shop"}
    status = {"phase": phase, "podIPs": [{"ip": address} for address in addresses]}
    world.kube.put(PODS, {"metadata": meta, "spec": {"nodeName": node, **spec}, "status": status})


def test_pods_of_their_nodes(world: World) -> None:
    """Both families; pods of the host's network, pods that have ended and nodes without a pod CIDR have others."""
    nodes(world, "a", "b", "c")
    world.node("without")
    for number, node in enumerate("abc"):
        pod(world, node, f"10.244.{number}.5", f"fd00:{number}::5")
    pod(world, "a", "192.168.0.1", hostNetwork=True)
    pod(world, "a", "172.17.0.9", phase="Succeeded")
    pod(world, "without", "172.17.0.3")
    pod(world, "b")
    assert world.find(check_pod_addresses) == {}


def test_node_whose_pods_have_other_addresses(world: World) -> None:
    """A kubelet that lost its network plugin: its pods are in Docker's own network, those of others are not."""
    nodes(world, "a", "b", "c")
    for number, node in enumerate("ab"):
        pod(world, node, f"10.244.{number}.5")
    pod(world, "c", "10.244.2.9")  # from before
    pod(world, "c", "172.17.0.2")
    found = world.find(check_pod_addresses)["pod-addresses.outside"]
    assert found.severity == "warning" and "c: shop/web-172.17.0.2 (172.17.0.2)" in found.title


def test_network_plugin_with_ranges_of_its_own(world: World) -> None:
    """Where no node's pods are in its pod CIDR, or half of them at most, that is how it is meant."""
    nodes(world, "a", "b")
    pod(world, "a", "10.0.0.5")
    pod(world, "b", "10.0.1.5")
    assert world.find(check_pod_addresses) == {}
    pod(world, "b", "10.244.1.5")
    assert world.find(check_pod_addresses) == {}
