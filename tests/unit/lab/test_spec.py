"""Names and addresses of a lab."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

import pytest

from upgrader.errors import UsageError
from upgrader.lab.spec import MAX_LABS, LabSpec, Placement


def _placement(index: int = 0, controllers: int = 3, workers: int = 2) -> Placement:
    return Placement(LabSpec("x", controllers, workers), index, Path("/nowhere"))


def test_several_controllers_get_a_load_balancer_as_endpoint() -> None:
    """With more than one controller the API's name points to lb-1, made first; with one, to that controller."""
    assert [node.name for node in _placement().nodes] == [
        "lb-1",
        "controller-1",
        "controller-2",
        "controller-3",
        "worker-1",
        "worker-2",
    ]
    assert _placement().endpoint_address == _placement().node("lb-1").address
    single = _placement(controllers=1, workers=0)
    assert single.endpoint_address == single.node("controller-1").address


def test_networks_of_labs_and_within_a_lab_never_overlap() -> None:
    """Every two labs are disjoint, and so are the node, Service and pod networks of one."""
    labs = [ipaddress.ip_network(_placement(index).network) for index in range(MAX_LABS)]
    assert len(set(labs)) == MAX_LABS
    inner = [
        ipaddress.ip_network(n) for n in ("10.128.0.0/24", *_placement().service_subnets, *_placement().pod_subnets)
    ]
    assert all(network.subnet_of(labs[0]) for network in inner)  # type: ignore[arg-type]
    assert not any(a.overlaps(b) for a in inner for b in inner if a is not b)


def test_every_node_has_an_address_and_interface_name_of_its_own() -> None:
    """The largest lab has no address twice, and no interface name is longer than the kernel's 15 characters."""
    nodes = Placement(LabSpec("x", 7, 50), MAX_LABS - 1, Path("/")).nodes
    assert len({node.address for node in nodes}) == len({node.machine for node in nodes}) == len(nodes) == 58
    assert all(len(f"vb-{node.machine}") <= 15 for node in nodes)


@pytest.mark.parametrize(
    ("name", "controllers", "workers", "version"),
    [("Bad_Name", 1, 0, "v1.36.3"), ("x", 0, 0, "v1.36.3"), ("x", 1, -1, "v1.36.3"), ("x", 1, 0, "1.36")],
)
def test_what_cannot_be_is_refused(name: str, controllers: int, workers: int, version: str) -> None:
    """A name that is no DNS label, an impossible number of nodes and a malformed version are usage errors."""
    with pytest.raises(UsageError):
        LabSpec(name, controllers, workers, version)


def test_an_unknown_node_is_answered_with_those_that_exist() -> None:
    """The remedy lists the lab's nodes."""
    with pytest.raises(UsageError) as caught:
        _placement(controllers=1, workers=1).node("controller-9")
    assert "controller-1, worker-1" in caught.value.remedy


@pytest.mark.parametrize(
    "switch",
    [
        {"port": 80},
        {"port": 10250},
        {"port": 30443},
        {"hardened": True, "kubernetes": "v1.33.13"},
        {"debian": 11},
        {"containerd": "v1.7.29"},
        {"containerd": "v2.0.7"},
        {"containerd": "2.4.2"},
        {"ingress": True},
    ],
)
def test_switches_that_cannot_work_are_refused(switch: dict[str, Any]) -> None:
    """A port that something else has, or NodePorts, releases of Debian and containerd that no machine can have, and an
    ingress without workers are usage errors.
    """
    with pytest.raises(UsageError):
        LabSpec("x", **switch)


def test_the_default_lab_has_no_switch_on_and_one_address_each() -> None:
    """Nothing but the nodes themselves: no registry, no second addresses, port 6443."""
    placement = Placement(LabSpec("x"), 0, Path("/nowhere"))
    assert placement.spec.switches == ()
    assert placement.addresses(placement.nodes[0]) == ("10.128.0.11/24",)
    assert placement.endpoint == "https://10.128.0.11:6443"
    assert placement.ssh_gateway == ""


def test_switches_are_told_as_they_are_given() -> None:
    """A lab can be described by the options that would make it again."""
    spec = LabSpec("x", registry=True, ssh_address=True, flannel=True, port=7443, debian=13, containerd="v2.4.2")
    assert spec.switches == (
        "--registry",
        "--ssh-address",
        "--flannel",
        "--port 7443",
        "--debian 13",
        "--containerd v2.4.2",
    )


def test_ssh_addresses_are_none_that_kubernetes_knows() -> None:
    """sshd listens in a network of its own, also on the load balancer; the cluster's addresses stay."""
    plain = Placement(LabSpec("x", 3, 1), 4, Path("/nowhere"))
    apart = Placement(LabSpec("x", 3, 1, ssh_address=True), 4, Path("/nowhere"))
    assert [node.address for node in apart.nodes] == [node.address for node in plain.nodes]
    assert {node.ssh_address.rpartition(".")[0] for node in apart.nodes} == {"10.132.2"}
    node = apart.node("worker-1")
    assert apart.addresses(node) == ("10.132.0.31/24", "10.132.2.31/24")


def test_a_vip_is_what_clients_use() -> None:
    """The API's name leads to it, and only the controller has it."""
    placement = Placement(LabSpec("x", workers=1, vip=True, port=7443), 4, Path("/nowhere"))
    assert placement.endpoint == "https://10.132.0.9:7443"
    assert placement.addresses(placement.node("controller-1")) == ("10.132.0.11/24", "10.132.0.9/32")
    assert placement.addresses(placement.node("worker-1")) == ("10.132.0.31/24",)


def test_several_controllers_with_a_vip_have_no_load_balancer() -> None:
    """Clients use the address, which no controller has of its own: keepalived gives it to one of them."""
    placement = Placement(LabSpec("x", 3, vip=True), 4, Path("/nowhere"))
    assert [node.name for node in placement.nodes] == ["controller-1", "controller-2", "controller-3"]
    assert placement.endpoint == "https://10.132.0.9:6443"
    assert placement.addresses(placement.node("controller-2")) == ("10.132.0.12/24",)


def test_a_load_balancer_before_the_workers_of_one_controller_is_nobodys_endpoint() -> None:
    """Clients of the API use the controller; of several, lb-1 as before, or the virtual IP."""
    for controllers, vip in ((1, False), (3, False), (3, True)):
        placement = Placement(LabSpec("x", controllers, 2, ingress=True, vip=vip), 4, Path("/nowhere"))
        plain = Placement(LabSpec("x", controllers, 2, vip=vip), 4, Path("/nowhere"))
        assert [node.name for node in placement.nodes if node.role == "load-balancer"] == ["lb-1"]
        assert placement.endpoint == plain.endpoint


def test_a_registry_is_no_node_of_the_cluster() -> None:
    """Its machine comes last, and the API's address stays the controller's."""
    placement = Placement(LabSpec("x", registry=True), 4, Path("/nowhere"))
    assert [(node.name, node.kubernetes) for node in placement.nodes] == [("controller-1", True), ("registry-1", False)]
    assert placement.endpoint_address == placement.node("controller-1").address


def test_ipv6_networks_of_a_lab_do_not_overlap() -> None:
    """Nodes, Services and pods are apart, and within the lab's own /48."""
    placement = Placement(LabSpec("x", 3, 2, dual_stack=True), 4, Path("/nowhere"))
    lab = ipaddress.IPv6Network("fd00:7570:84::/48")
    inner = [ipaddress.IPv6Network(each) for each in ("fd00:7570:84::/64", placement.service_subnets[1])]
    inner.append(ipaddress.IPv6Network(placement.pod_subnets[1]))
    assert all(network.subnet_of(lab) for network in inner)
    assert not any(a.overlaps(b) for a in inner for b in inner if a is not b)
    assert placement.addresses(placement.node("worker-1")) == ("10.132.0.31/24", "fd00:7570:84::31/64")
    assert placement.gateways == ("10.132.0.1", "fd00:7570:84::1")


def test_an_ipv6_lab_has_no_ipv4() -> None:
    """Neither has SSH."""
    placement = Placement(LabSpec("x", workers=1, ipv6=True), 4, Path("/nowhere"))
    worker = placement.node("worker-1")
    assert placement.node_addresses(worker) == (worker.address,) == ("fd00:7570:84::31",)
    assert placement.addresses(worker) == ("fd00:7570:84::31/64",)
    assert placement.gateways == ("fd00:7570:84::1",) and not placement.ssh_gateway
    assert placement.endpoint == "https://[fd00:7570:84::11]:6443"
    assert placement.service_subnets == ("fd00:7570:84:1::/112",) and placement.cluster_dns == "fd00:7570:84:1::a"
    assert placement.pod_subnets == ("fd00:7570:84:100::/56",)


@pytest.mark.parametrize("switch", ["dual_stack", "vip", "ssh_address", "external_etcd", "ingress", "flannel"])
def test_an_ipv6_lab_is_a_plain_one_otherwise(switch: str) -> None:
    """What was not made for it is refused."""
    with pytest.raises(UsageError, match="--ipv6 can't be combined with"):
        LabSpec("x", workers=1, ipv6=True, **{switch: True})  # type: ignore[arg-type]


@pytest.mark.parametrize(("layout", "switches"), [("kops", {}), ("kubespray", {"external_etcd": True})])
def test_a_layout_is_a_known_one_and_has_its_own_etcd(layout: str, switches: dict[str, bool]) -> None:
    """Otherwise, it is refused before anything is made."""
    with pytest.raises(UsageError, match="layout"):
        LabSpec("x", layout=layout, **switches)  # type: ignore[arg-type]


def test_host_names_are_the_nodes_unless_told_otherwise() -> None:
    """With the switch none is, and kubeadm's names, the inventory's, stay."""
    plain, other = (Placement(LabSpec("x", 3, 1, host_names=on), 4, Path("/nowhere")) for on in (False, True))
    assert [node.name for node in plain.nodes] == [node.host_name for node in plain.nodes]
    assert [node.name for node in other.nodes] == [node.name for node in plain.nodes]
    assert not {node.host_name for node in other.nodes} & {node.name for node in other.nodes}


def test_a_bastion_is_made_first_and_is_nobodys_endpoint() -> None:
    """No other machine can be logged in to before it; clients of the API don't go through it."""
    for controllers in (1, 3):
        placement = Placement(LabSpec("x", controllers, bastion=True), 4, Path("/nowhere"))
        plain = Placement(LabSpec("x", controllers), 4, Path("/nowhere"))
        assert [node.name for node in placement.nodes] == ["bastion-1", *(node.name for node in plain.nodes)]
        assert not placement.node("bastion-1").kubernetes
        assert placement.endpoint == plain.endpoint
