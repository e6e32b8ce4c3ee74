"""Names and addresses of a lab."""

from __future__ import annotations

import ipaddress
from pathlib import Path

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
    inner = [ipaddress.ip_network(n) for n in ("10.128.0.0/24", _placement().service_subnet, _placement().pod_subnet)]
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
