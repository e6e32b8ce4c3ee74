"""Service `kubernetes` doesn't get another address by a run."""

from __future__ import annotations

import pytest

from tests.unit.preflight.conftest import CONTROLLER, World
from upgrader.gates.kubernetes_kinds import ENDPOINT_SLICES
from upgrader.preflight.api_endpoints import check_api_endpoints
from upgrader.preflight.context import NODES

LEASE, NONE = "lease", "none"


def manifest(reconciler: str, *fixed: str) -> str:
    """What the chart renders, with these fixed addresses."""
    deployment = f"""
kind: Deployment
metadata: {{name: kube-apiserver}}
spec: {{template: {{spec: {{containers: [{{name: a, args: [--endpoint-reconciler-type={reconciler}]}}]}}}}}}
"""
    endpoints = ", ".join(f'{{addresses: ["{each}"]}}' for each in fixed)
    slice_ = f"kind: EndpointSlice\nmetadata: {{name: kube-apiserver, namespace: default}}\nendpoints: [{endpoints}]\n"
    return f"{deployment}---\n{slice_}" if fixed else deployment


def cluster(world: World, *nodes: str, behind: tuple[str, ...]) -> None:
    """Controllers with these InternalIPs, and the addresses that Service kubernetes has."""
    for number, address in enumerate(nodes, 1):
        name = CONTROLLER if number == 1 else f"controller-{number}"
        world.controller(name)
        node = world.node(name)
        addresses = [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]
        world.kube.put(NODES, {**node, "status": {**node["status"], "addresses": addresses}})
    labels = {"kubernetes.io/service-name": "kubernetes"}
    endpoints = [{"addresses": [each]} for each in behind]
    made = {"metadata": {"name": "kubernetes", "namespace": "default", "labels": labels}, "endpoints": endpoints}
    world.kube.put(ENDPOINT_SLICES, made)


@pytest.mark.parametrize(
    ("planned", "nodes", "behind", "title"),
    [
        (manifest(LEASE), ["10.0.2.15"], ["192.168.56.10"], "10.0.2.15 instead of 192.168.56.10"),
        (manifest(NONE, "10.0.2.15"), ["192.168.56.10"], ["192.168.56.10"], "10.0.2.15 instead of 192.168.56.10"),
        (manifest(LEASE), ["10.0.0.1", "10.0.2.2"], ["10.0.0.1", "10.0.0.2"], "10.0.2.2 instead of 10.0.0.2"),
        (manifest(LEASE), ["10.0.0.1"], ["10.0.0.1"], ""),
        (manifest(LEASE), ["fd00::1"], ["FD00:0::1"], ""),
        (manifest(NONE, "192.168.56.10"), ["10.0.2.15"], ["192.168.56.10"], ""),
        (manifest(LEASE, "10.0.0.1"), ["10.0.0.1", "10.0.0.2"], ["10.0.0.1"], ""),  # it becomes one of several
        (manifest(LEASE), ["10.0.0.1"], ["10.0.0.1", "10.0.0.2"], ""),  # one that went
        ("", ["10.0.2.15"], ["192.168.56.10"], ""),  # the release isn't in the plan
    ],
    ids=[
        "another InternalIP", "another fixed one", "of one of several", "the same", "in another text",
        "fixed, whatever the node has", "one more", "one less", "not in the plan",
    ],
)  # fmt: skip
def test_addresses(world: World, planned: str, nodes: list[str], behind: list[str], title: str) -> None:
    """A VM with two networks whose kubelet registers the other one since, or another `endpoints.addresses`."""
    cluster(world, *nodes, behind=tuple(behind))
    if planned:
        world.manifests["kube-apiserver"] = planned
    found = world.find(check_api_endpoints)
    assert [each.title for each in found.values()] == ([f"Service kubernetes would get {title}"] if title else [])


def test_remedy(world: World) -> None:
    """It is an error, and says how the address stays."""
    cluster(world, "10.0.2.15", behind=("192.168.56.10",))
    world.manifests["kube-apiserver"] = manifest(LEASE)
    finding = world.find(check_api_endpoints)["control-plane.endpoint-changes"]
    assert finding.severity == "error"
    assert "--node-ip=192.168.56.10" in finding.remedy
