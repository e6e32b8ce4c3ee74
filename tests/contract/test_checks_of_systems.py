"""Checks of the systems under kubelets, by what nodes report to a real API server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.contract.checking import Make, Status, checked, fake_node
from tests.unit.recover.host_facts_json import host_facts
from upgrader.adapters.kube import KubeAdapter
from upgrader.model.cluster import Host
from upgrader.model.node_settings import NodePool, NodeSource
from upgrader.model.version import KubernetesVersion
from upgrader.onhost.sending.host_facts import Examined
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.os_support import check_os_support
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.plan import Plan
from upgrader.steps.step_document import NodeChange

OLD, NEW = KubernetesVersion(1, 34, 4), KubernetesVersion(1, 35, 4)
SUPPORTED = {
    "kubeletVersion": str(OLD),
    "osImage": "Ubuntu 26.04 LTS",
    "kernelVersion": "7.0.0-14-generic",
    "containerRuntimeVersion": "containerd://2.2.2",
}


def ids(kube: KubeAdapter, node: str, cgroups: dict[str, Any] | None = None) -> list[str]:
    """What the check finds of a node whose kubelet is upgraded; of a controller, if its cgroups are given."""
    change = (NodeChange(node, OLD, NEW),)
    step = PlannedNodes(NodePool("x"), change, NEW, NodeSource("packages"), 300.0, 1, Path("/playbooks"))
    examined = [Examined(Host(node, ""), host_facts({"cgroups": cgroups}))] if cgroups else []
    context = replace(checked(kube, examined=examined), plan=Plan(OLD, NEW, (step,)))
    return [item.id for item in run_checks(context, [("os-support", check_os_support)]) if node in item.title]


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({}, []),
        ({"osImage": "Ubuntu 20.04.6 LTS"}, ["os-support.ended"]),
        ({"osImage": "Homemade Linux 3"}, ["os-support.not-known"]),
        ({"kernelVersion": "4.19.0-27-amd64"}, ["os-support.kernel"]),
        ({"containerRuntimeVersion": "containerd://1.6.20~ds1"}, ["os-support.containerd"]),
    ],
)
def test_system_of_a_node(
    kube: KubeAdapter, made: Make, status: Status, reported: dict[str, str], expected: list[str]
) -> None:
    """As its kubelet writes it into the node's status."""
    node = fake_node(made, status, nodeInfo={**SUPPORTED, **reported})
    assert ids(kube, node, {"version": 2}) == expected


def test_cgroups_that_the_new_kubelet_refuses(kube: KubeAdapter, made: Make, status: Status) -> None:
    """Version 1 and unknown ones are told, version 2 isn't."""
    node = fake_node(made, status, nodeInfo=SUPPORTED)
    assert ids(kube, node, {"version": 2}) == []
    assert ids(kube, node, {"version": 1}) == ["os-support.cgroup-v1"]
    assert ids(kube, node) == ["os-support.cgroups-unknown"]
