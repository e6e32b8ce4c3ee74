"""Networks that overlap, and those that are full."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.preflight.conftest import FLAGS, World
from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import SERVICE_CIDRS, SERVICES
from upgrader.ports import Kind
from upgrader.preflight.context import NODES
from upgrader.preflight.networks import check_networks

ADDRESSES = Kind("networking.k8s.io/v1", "ipaddresses", namespaced=False)


def node(world: World, name: str, cidrs: list[str], *addresses: str) -> None:
    """A node with pod CIDRs and addresses."""
    found = world.node(name)
    found["spec"] = {"podCIDRs": cidrs, "podCIDR": cidrs[0]} if cidrs else {}
    found["status"]["addresses"] = [{"type": "Hostname", "address": name}]
    found["status"]["addresses"] += [{"type": "InternalIP", "address": item} for item in addresses]
    world.kube.put(NODES, found)


def service_cidrs(world: World, *cidrs: str) -> None:
    """The ranges of Services."""
    world.kube.put(SERVICE_CIDRS, {"metadata": {"name": "kubernetes"}, "spec": {"cidrs": list(cidrs)}})


def flags(world: World, *more: str, component: str = "kube-controller-manager") -> None:
    """A component's flags, besides the usual ones."""
    world.pod(f"{component}-abc", {"app": component}, flags=(*FLAGS, *more))


def test_networks_apart_from_each_other(world: World) -> None:
    """Two families, Service CIDRs within each other and a second interface are usual."""
    node(world, "a", ["10.244.0.0/24", "fd00:1::/64"], "192.168.0.1", "fd00:2::1")
    node(world, "b", ["10.244.1.0/24", "fd00:1:0:1::/64"], "192.168.0.2", "192.168.0.1")
    service_cidrs(world, "10.96.0.0/12", "fd00:3::/108")
    world.kube.put(SERVICE_CIDRS, {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.96.0.0/16", "10.112.0.0/16"]}})
    assert world.find(check_networks) == {}


@pytest.mark.parametrize(
    ("cidrs", "address", "title"),
    [
        ("10.100.1.0/24", "192.168.0.2", "pod CIDR 10.100.1.0/24 of node b lies in Service CIDR 10.96.0.0/12"),
        ("10.0.0.0/8", "192.168.0.2", "Service CIDR 10.96.0.0/12 lies in pod CIDR 10.0.0.0/8 of node b"),
        ("10.244.1.0/24", "10.97.0.9", "address 10.97.0.9 of node b lies in Service CIDR 10.96.0.0/12"),
        ("10.244.0.128/25", "192.168.0.2", "10.244.0.128/25 of node b lies in pod CIDR 10.244.0.0/24 of node a"),
        ("10.244.0.0/24", "192.168.0.2", "10.244.0.0/24 of node b lies in pod CIDR 10.244.0.0/24 of node a"),
        ("10.244.1.0/24", "10.244.0.9", "address 10.244.0.9 of node b lies in pod CIDR 10.244.0.0/24 of node a"),
    ],
)
def test_networks_that_overlap(world: World, cidrs: str, address: str, title: str) -> None:
    """Services, pods and nodes, each with each: a warning that names both, as the cluster works with it so far."""
    node(world, "a", ["10.244.0.0/24"], "192.168.0.1")
    node(world, "b", [cidrs], address)
    found = world.find(check_networks)["networks.overlap"]
    assert found.severity == "warning" and title in found.title


def test_many_overlaps_are_one_finding(world: World) -> None:
    """A cluster whose pods and Services were given one range has an overlap for every node."""
    service_cidrs(world, "10.244.0.0/16")
    for number in range(200):
        node(world, f"n{number}", [f"10.244.{number}.0/24"])
    assert world.find(check_networks)["networks.overlap"].title.endswith("and 197 more")


def test_last_pod_cidr_is_taken(world: World) -> None:
    """The finding has the numbers; while there is one left there is none, and neither with a network plugin's pool."""
    flags(world, "--cluster-cidr=10.244.0.0/22")
    for number in range(3):
        node(world, f"n{number}", [f"10.244.{number}.0/24"])
    node(world, "outside", ["10.9.0.0/24"])
    assert world.find(check_networks) == {}
    node(world, "last", ["10.244.3.0/24"])
    found = world.find(check_networks)["networks.no-pod-room"]
    assert found.severity == "warning"
    assert "a /24 of 10.244.0.0/22: 4 of 4 are taken" in found.diagnosis
    for other in ("--allocate-node-cidrs=false", "--cidr-allocator-type=CloudAllocator"):
        flags(world, "--cluster-cidr=10.244.0.0/22", other)
        assert world.find(check_networks) == {}


@pytest.mark.parametrize(
    ("mask", "full"), [("--node-cidr-mask-size=25", False), ("--node-cidr-mask-size-ipv4=23", True), ("--x=1", True)]
)
def test_size_of_pod_cidrs(world: World, mask: str, full: bool) -> None:
    """The flags set it, of one family or of all; two of another size may be within one."""
    flags(world, "--cluster-cidr=10.244.0.0/23", mask)
    node(world, "a", ["10.244.0.0/24"])
    node(world, "b", ["10.244.1.0/27"])
    node(world, "c", ["10.244.1.64/27"])
    assert ("networks.no-pod-room" in world.find(check_networks)) is full


def test_each_family_needs_room(world: World) -> None:
    """With two families, a node gets a pod CIDR of both, or none."""
    flags(world, "--cluster-cidr=10.244.0.0/16,fd00:1::/64")
    node(world, "a", ["10.244.0.0/24", "fd00:1::/64"])
    assert "IPv6 pod CIDR" in world.find(check_networks)["networks.no-pod-room"].title


def test_services_range_takes_pod_cidrs(world: World) -> None:
    """kube-controller-manager leaves out what it knows to be of Services."""
    service_cidrs(world, "10.244.1.0/24")
    flags(world, "--cluster-cidr=10.244.0.0/23", "--service-cluster-ip-range=10.244.1.0/24")
    node(world, "a", ["10.244.0.0/24"])
    assert "networks.no-pod-room" in world.find(check_networks)
    flags(world, "--cluster-cidr=10.96.0.0/24")
    assert "1 of 1 are taken" in world.find(check_networks)["networks.no-pod-room"].diagnosis


@pytest.mark.parametrize("wrong", ["--cluster-cidr=x", "--node-cidr-mask-size=x"])
def test_flags_that_can_not_be_read(world: World, wrong: str) -> None:
    """A component that crashes by its flags still has a pod: what they mean isn't guessed."""
    flags(world, wrong)
    assert world.find(check_networks)["networks.pod-room-unknown"].severity == "warning"


def test_no_controller_manager(world: World) -> None:
    """Without its flags nothing is known of the pod CIDRs that are left, which is said."""
    world.pod("kube-controller-manager-abc", {"app": "kube-controller-manager"})
    assert world.find(check_networks)["networks.pod-room-unknown"].severity == "warning"


def services(world: World, count: int, allocated: int | None = None) -> None:
    """So many Services, of which this many have an address."""
    for number in range(count):
        world.kube.put(SERVICES, {"metadata": {"name": f"s{number}", "namespace": "shop"}})
    for number in range(count if allocated is None else allocated):
        labels = {"ipaddress.kubernetes.io/ip-family": "IPv4"}
        world.kube.put(ADDRESSES, {"metadata": {"name": f"10.96.0.{number + 1}", "labels": labels}})


@pytest.mark.parametrize(("allocated", "found"), [(12, False), (13, True), (14, True)])
def test_addresses_of_services_run_out(world: World, allocated: int, found: bool) -> None:
    """From nine tenths on; the first and the last of an IPv4 range are none, and headless Services take none."""
    service_cidrs(world, "10.96.0.0/28", "fd00::/112")
    services(world, 30, allocated)
    title = f"{allocated} of 14 IPv4 addresses of Services are taken"
    assert [item.title for item in world.find(check_networks).values()] == ([title] if found else [])


def test_addresses_are_counted_only_where_it_matters(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A range that all Services together don't fill needs one question; objects are never read."""
    asked: list[str] = []
    count = world.kube.count

    def counted(kind: Kind, *arguments: Any, **more: Any) -> int:
        asked.append(kind.plural)
        return count(kind, *arguments, **more)

    monkeypatch.setattr(world.kube, "count", counted)
    services(world, 30)
    assert world.find(check_networks) == {} and asked == ["services"]


def refuse(world: World, monkeypatch: pytest.MonkeyPatch, *plurals: str) -> None:
    """Let the API not serve these."""
    error = ApiError("HTTP 404")
    error.status = 404
    for method in ("list", "count"):
        real = getattr(world.kube, method)

        def asked(kind: Kind, *arguments: Any, real: Any = real, **more: Any) -> Any:
            if kind.plural in plurals:
                raise error
            return real(kind, *arguments, **more)

        monkeypatch.setattr(world.kube, method, asked)


def test_api_without_service_cidrs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """kube-apiserver's flag says what they are then, and the number of Services how full; without it, that is told."""
    refuse(world, monkeypatch, "servicecidrs", "ipaddresses")
    flags(world, "--service-cluster-ip-range=10.96.0.0/28", component="kube-apiserver")
    services(world, 13)
    assert world.find(check_networks)["networks.service-room"].title.startswith("13 of 14")
    world.pod("kube-apiserver-abc", {"app": "kube-apiserver"})
    assert world.find(check_networks)["networks.service-room-unknown"].severity == "warning"
