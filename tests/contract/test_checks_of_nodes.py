"""Checks of nodes and of what runs on them, on a real API server: with nodes that have no machine behind them."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from testkit.fakes.helm import FakeHelm
from testkit.lab_cluster import until
from tests.contract.checking import (
    GROUP,
    SERVER,
    TARGET,
    Make,
    Status,
    checked,
    fake_node,
    findings,
    found,
    ids,
    merge,
    waiting_pod,
)
from tests.unit.recover.host_facts_json import host_facts
from upgrader.adapters.kube import KubeAdapter
from upgrader.app.observe_cluster import observe
from upgrader.model.cluster import Host
from upgrader.model.surge import SURGE
from upgrader.model.version import KubernetesVersion
from upgrader.onhost.sending.host_facts import Examined
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.component_skew import check_components
from upgrader.preflight.context import DEPLOYMENTS, NODES, PODS
from upgrader.preflight.controller_machines import check_machines, check_ports
from upgrader.preflight.critical_pods import check_critical_pods
from upgrader.preflight.memory import check_memory
from upgrader.preflight.networks import check_networks
from upgrader.preflight.nodes import check_nodes, check_workers
from upgrader.preflight.pod_addresses import check_pod_addresses
from upgrader.preflight.version_skew import check_controller_kubelets, check_version


def test_node_that_is_healthy_then_not_ready(kube: KubeAdapter, made: Make, status: Status) -> None:
    """What its kubelet reports last is the finding; one that never reported is unknown."""
    name = fake_node(made, status)
    assert found(kube, check_workers, name) == []
    ready = {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "PLEG is not healthy"}
    status(NODES, name, "", {"conditions": [ready]})
    (finding,) = [item for item in findings(kube, check_workers) if name in item.title]
    assert (finding.id, finding.diagnosis) == ("workers.not-ready", "PLEG is not healthy")
    status(NODES, name, "", {"conditions": None})
    assert found(kube, check_workers, name) == ["workers.unknown"]


def test_worker_that_is_down(kube: KubeAdapter, made: Make, status: Status) -> None:
    """By the condition of a silent kubelet, and the taint that kube-controller-manager gives its node for that."""
    name = fake_node(made, status)
    silent = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}
    status(NODES, name, "", {"conditions": [silent]})
    until("the taint", lambda: found(kube, check_workers, name) == ["workers.down"], timeout_seconds=60.0)
    (finding,) = [item for item in findings(kube, check_workers) if name in item.title]
    assert finding.diagnosis == "Kubelet stopped posting node status."
    assert not finding.blocking


def test_node_whose_kubelet_never_reported(kube: KubeAdapter, made: Make, status: Status) -> None:
    """It has no version, which stops neither the checks nor a plan: it is the finding."""
    name = fake_node(made, status, nodeInfo=None, conditions=None)
    observed = observe(kube, FakeHelm(), ())
    assert name not in observed.kubelets and name not in observed.nodes
    assert found(kube, check_workers, name) == ["workers.unknown"]


def test_node_under_pressure(kube: KubeAdapter, made: Make, status: Status) -> None:
    """A warning for a worker, an error for a controller."""
    full = {"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure", "message": "disk is full"}
    name = fake_node(made, status)
    assert found(kube, check_nodes, name) == []
    node = kube.get(NODES, name)
    assert node is not None
    status(NODES, name, "", {"conditions": [*node["status"]["conditions"], full]})
    assert found(kube, check_nodes, name) == ["nodes.pressure"]


def test_node_that_is_cordoned_or_deleted(kube: KubeAdapter, made: Make, status: Status) -> None:
    """With a finalizer, the API server keeps a deleted node, and says since when."""
    cordoned = fake_node(made, status, spec={"unschedulable": True})
    assert found(kube, check_nodes, cordoned) == ["nodes.cordoned"]
    name = fake_node(made, status, meta={"finalizers": [f"{GROUP}/nobody"]})
    try:
        assert found(kube, check_workers, name) == []
        kube.delete(NODES, name)
        assert found(kube, check_workers, name) == ["workers.deleting"]
        assert "nodes.deleting" in ids(kube, check_nodes, controllers=[name])
        status(NODES, name, "", {"conditions": [{"type": "Ready", "status": "False"}]})
        assert "nodes.not-ready" in ids(kube, check_nodes, controllers=[name])
        status(NODES, name, "", {"conditions": None})
        assert "nodes.unknown" in ids(kube, check_nodes, controllers=[name])
    finally:
        merge(kube, f"/api/v1/nodes/{name}", {"metadata": {"finalizers": None}})


def test_surge_node_that_an_earlier_run_has_left(kube: KubeAdapter, made: Make, status: Status) -> None:
    """By its label; one that the inventory lists is the cluster's own."""
    name = fake_node(made, status, meta={"labels": {SURGE: "workers"}})
    assert found(kube, check_nodes, name) == ["nodes.surge-left"]
    assert "nodes.surge-listed" in ids(kube, check_nodes, controllers=[name])


def test_inventory_and_nodes_that_differ(kube: KubeAdapter, made: Make, status: Status) -> None:
    """A controller that is no node, one without the label, and a node with it that the inventory doesn't have."""
    name = fake_node(made, status)
    with_label = fake_node(made, status, meta={"labels": {GROUP: "yes"}})
    manifest = (
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: kube-apiserver}, spec: {template: {spec: "
        f"{{nodeSelector: {{{GROUP}: 'yes'}}, containers: []}}}}}}}}"
    )
    planned = {"kube-apiserver": manifest}
    with_both = ids(kube, check_nodes, controllers=[name, "no-such-node"], planned=planned)
    assert {"nodes.missing", "nodes.unlabelled", "nodes.unlisted"} <= set(with_both)
    assert found(kube, check_nodes, with_label, controllers=[with_label], planned=planned) == []


@pytest.mark.parametrize(
    ("kubelet", "expected"),
    [
        ("v1.36.0", []),
        ("v1.37.0", ["version.kubelet-ahead"]),
        ("v1.38.0", ["components.kubelet-newer"]),
        ("v1.33.0", ["version.kubelet-older"]),
    ],
)
def test_kubelet_of_another_version(
    kube: KubeAdapter, made: Make, status: Status, kubelet: str, expected: list[str]
) -> None:
    """As the node's status has it, which its kubelet writes."""
    name = fake_node(made, status, nodeInfo={"kubeletVersion": kubelet})
    assert found(kube, check_version, name) == expected


@pytest.mark.parametrize(("version", "expected"), [("v1.36.0", []), ("kwok-v0.6.0", ["version.kubelet-unknown"])])
def test_kubelet_that_is_none(kube: KubeAdapter, made: Make, status: Status, version: str, expected: list[str]) -> None:
    """As KWOK's nodes report; the API server takes any text."""
    name = fake_node(made, status, nodeInfo={"kubeletVersion": version})
    assert found(kube, check_version, name) == expected


def test_kubelet_that_can_not_run_the_chart(kube: KubeAdapter, made: Make, status: Status) -> None:
    """Only a controller's counts."""
    name = fake_node(made, status, nodeInfo={"kubeletVersion": "v1.31.0"})
    assert found(kube, check_controller_kubelets, name, controllers=[]) == []
    assert found(kube, check_controller_kubelets, name, controllers=[name]) == ["kubelets.too-old"]


def test_target_that_is_older(kube: KubeAdapter) -> None:
    """From the version that the API server itself tells."""
    context = checked(kube)
    for target, expected in (((1, 36, 4), []), ((1, 35, 9), ["version.downgrade"])):
        named = replace(context, target=KubernetesVersion(*target), observed=replace(context.observed, kubelets={}))
        assert [item.id for item in run_checks(named, [("family", check_version)])] == expected


def machine(name: str, machine_id: str) -> Examined:
    """A controller that was examined, and has this machine ID."""
    return Examined(Host(name, "192.0.2.1"), host_facts({"identity": {"machine_id": machine_id}}))


def test_address_of_another_machine(kube: KubeAdapter, made: Make, status: Status) -> None:
    """By the machine ID that the kubelet wrote into the node's status."""
    name = fake_node(made, status, nodeInfo={"kubeletVersion": str(SERVER), "machineID": "aaaa"})
    right, wrong = [machine(name, "aaaa")], [machine(name, "bbbb")]
    assert ids(kube, check_machines, controllers=[name], examined=right) == []
    assert ids(kube, check_machines, controllers=[name], examined=wrong) == ["machines.other-node"]
    assert ids(kube, check_machines, controllers=[name]) == ["machines.not-examined"]


def test_components_that_do_not_go_together(kube: KubeAdapter, made: Make, status: Status) -> None:
    """By the images of the pods on the controllers, and of those only."""
    one, other = fake_node(made, status), fake_node(made, status)

    def component(node: str, name: str, version: KubernetesVersion | str) -> None:
        waiting_pod(made, node, {"name": name, "image": f"registry.k8s.io/{name}:{version}"})

    for name in ("kube-apiserver", "kube-scheduler"):
        component(one, name, SERVER)
    both = [one, other]
    assert [item for item in found(kube, check_components, one, controllers=both) if item != "components.mixed"] == []
    assert "components.mixed" not in ids(kube, check_components, controllers=both)
    component(other, "kube-apiserver", TARGET)
    component(other, "kube-scheduler", TARGET)
    component(other, "kube-controller-manager", "v1.34.1")
    now = ids(kube, check_components, controllers=both)
    assert now == ["components.mixed", "components.newer", "components.older"]


def test_ports_that_services_may_take(kube: KubeAdapter, made: Make, status: Status) -> None:
    """By the flags of the running kube-apiserver."""
    name, other = fake_node(made, status), fake_node(made, status)
    waiting_pod(made, name, {"name": "kube-apiserver", "args": ["--service-node-port-range=30000-32767"]})
    assert ids(kube, check_ports, controllers=[name]) == []
    waiting_pod(made, other, {"name": "kube-apiserver", "args": ["--service-node-port-range=1024-65535"]})
    assert ids(kube, check_ports, controllers=[other]) == ["ports.node-ports"]


def test_memory_of_a_controller(kube: KubeAdapter, made: Make, status: Status) -> None:
    """What the pods there request is taken off what the kubelet reports as allocatable."""
    name = fake_node(made, status, allocatable={"memory": "2Gi", "pods": "110"})
    assert ids(kube, check_memory, controllers=[name]) == []
    waiting_pod(made, name, {"name": "main", "resources": {"requests": {"memory": "1800Mi"}}})
    assert ids(kube, check_memory, controllers=[name]) == ["memory.tight"]


def test_pods_with_addresses_of_another_network(kube: KubeAdapter, made: Make, status: Status) -> None:
    """Of three nodes whose pods have addresses, one gives others than its pod CIDR."""
    nodes = [fake_node(made, status, spec={"podCIDR": cidr, "podCIDRs": [cidr]}) for cidr in CIDRS]
    for node, cidr in zip(nodes, CIDRS, strict=True):
        _runs_at(made, status, node, cidr.replace(".0/26", ".5"))
    assert found(kube, check_pod_addresses, "upgrader-check") == []
    _runs_at(made, status, nodes[2], "172.17.0.3")
    assert found(kube, check_pod_addresses, nodes[2]) == ["pod-addresses.outside"]


CIDRS = ("10.245.1.0/26", "10.245.2.0/26", "10.245.3.0/26")


def _runs_at(made: Make, status: Status, node: str, address: str) -> None:
    # Of all namespaces, those with this name come first in the sample.
    pod = waiting_pod(made, node, {"name": "main"}, "default")
    status(PODS, pod, "default", {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]})


def test_next_node_gets_no_pod_cidr(kube: KubeAdapter, made: Make, status: Status) -> None:
    """By the flags of the running kube-controller-manager, and the nodes' pod CIDRs."""
    controller = fake_node(made, status, spec={"podCIDR": CIDRS[0], "podCIDRs": [CIDRS[0]]})
    flags = ["--allocate-node-cidrs", "--node-cidr-mask-size=26"]
    small: dict[str, Any] = {"name": "kube-controller-manager", "args": [*flags, "--cluster-cidr=10.245.1.0/25"]}
    waiting_pod(made, controller, small)
    assert "networks.no-pod-room" not in ids(kube, check_networks, controllers=[controller])
    fake_node(made, status, spec={"podCIDR": "10.245.1.64/26", "podCIDRs": ["10.245.1.64/26"]})
    assert "networks.no-pod-room" in ids(kube, check_networks, controllers=[controller])


def test_etcd_that_is_not_ready(kube: KubeAdapter, made: Make, status: Status) -> None:
    """By the condition of its pod on a controller, which its kubelet writes."""
    name = fake_node(made, status)
    pod = waiting_pod(made, name, {"name": "etcd"}, labels={"component": "etcd"})
    (finding,) = [item for item in findings(kube, check_critical_pods, controllers=[name]) if name in item.title]
    assert finding.id == "etcd.not-ready"
    ready = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]
    status(PODS, pod, "kube-system", {"phase": "Running", "conditions": ready})
    assert "etcd.not-ready" not in ids(kube, check_critical_pods, controllers=[name])


def test_critical_workload_that_is_not_ready(kube: KubeAdapter, made: Make) -> None:
    """By its priority class; its pod can't be placed anywhere."""
    name = f"upgrader-check-{uuid.uuid4().hex[:6]}"
    labels = {"app": name}
    spec = {
        "containers": [{"name": "main", "image": "nothing.example/nothing"}],
        "nodeSelector": {GROUP: "no-node-has-this"},
        "priorityClassName": "system-cluster-critical",
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    wanted = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    assert found(kube, check_critical_pods, name) == []
    made(DEPLOYMENTS, {"metadata": {"name": name}, "spec": wanted}, "kube-system")
    until("it to be observed", lambda: found(kube, check_critical_pods, name) != [], timeout_seconds=120)
    assert found(kube, check_critical_pods, name) == ["critical-pods.not-ready"]


def test_controller_without_a_controller_manager(kube: KubeAdapter, made: Make, status: Status) -> None:
    """Nothing shows its flags, so that nothing is known of the pod CIDRs that are left."""
    name = fake_node(made, status)
    assert "networks.pod-room-unknown" in ids(kube, check_networks, controllers=[name])
    waiting_pod(made, name, {"name": "kube-controller-manager", "args": ["--allocate-node-cidrs=false"]})
    assert "networks.pod-room-unknown" not in ids(kube, check_networks, controllers=[name])
