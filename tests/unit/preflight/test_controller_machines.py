"""The controllers as machines: which one answers, its disks, its clock and its ports."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.preflight.conftest import CONTROLLER, FLAGS, World
from upgrader.preflight.context import NODES
from upgrader.preflight.controller_machines import check_clocks, check_disks, check_machines, check_ports

GIB = 1 << 30


def node(world: World, name: str, machine: str) -> None:
    """A node whose kubelet reports that machine ID."""
    found = world.node(name)
    found["status"]["nodeInfo"] = {"machineID": machine}
    world.kube.put(NODES, found)


def test_machine_that_its_kubelet_reports(world: World) -> None:
    """The same ID on both ways is no finding; neither is one that isn't known."""
    node(world, CONTROLLER, "aaa")
    world.controller(identity={"machine_id": "aaa"})
    assert world.find(check_machines) == {}
    world.controller(identity={"unknown": "no answer"})
    assert world.find(check_machines) == {}


def test_address_of_another_machine(world: World) -> None:
    """Two addresses that were swapped are an error that names both; a machine that is no node is a warning."""
    node(world, CONTROLLER, "aaa")
    node(world, "worker-1", "bbb")
    world.controller(identity={"machine_id": "bbb"})
    found = world.find(check_machines)["machines.other-node"]
    assert found.severity == "error" and "(10.0.0.2) belongs to worker-1" in found.title
    world.controller(identity={"machine_id": "ccc"})
    assert world.find(check_machines)["machines.other-node"].severity == "warning"


def test_controller_that_can_not_be_examined(world: World) -> None:
    """Recovery couldn't examine it either: unknown, with the reason."""
    world.facts.clear()
    found = world.find(check_machines)["machines.not-examined"]
    assert (found.severity, found.diagnosis) == ("unknown", "no python3")


def space(**changes: Any) -> list[dict[str, Any]]:
    """One disk with two folders, and these values."""
    usual = {"size": 100 * GIB, "free": 50 * GIB, "inodes": 10_000, "inodes_free": 5_000, "device": 1}
    return [{"path": path, **usual, **changes} for path in ("/", "/var/lib/etcd")]


@pytest.mark.parametrize(
    ("changes", "id_", "severity"),
    [
        ({"read_only": True}, "disks.read-only", "error"),
        ({"free": 1 << 20}, "disks.full", "error"),
        ({"inodes_free": 3}, "disks.no-inodes", "error"),
        ({"free": 14 * GIB}, "disks.scarce", "warning"),
    ],
)
def test_disk_that_stops_a_control_plane(world: World, changes: dict[str, Any], id_: str, severity: str) -> None:
    """One finding for a disk, which names its folders; a disk with room is none."""
    world.controller(spaces=space())
    assert world.find(check_disks) == {}
    world.controller(spaces=space(**changes))
    found = world.find(check_disks)
    assert found.keys() == {id_}
    assert found[id_].severity == severity and "/, /var/lib/etcd" in found[id_].title


def test_file_system_that_counts_no_inodes(world: World) -> None:
    """Btrfs has none to run out of."""
    world.controller(spaces=space(inodes=0, inodes_free=0))
    assert world.find(check_disks) == {}


def test_disk_that_can_not_be_read(world: World) -> None:
    """It may be full."""
    world.controller(spaces=[{"unknown": "Input/output error"}])
    assert world.find(check_disks)["disks.unread"].severity == "unknown"


@pytest.mark.parametrize(("offset", "found"), [(9.0, False), (-10.4, False), (11.0, True), (-3600.0, True)])
def test_clock_that_differs_from_this_machine(world: World, offset: float, found: bool) -> None:
    """As far as that is certain: the answer took a while."""
    world.controller(clock={"offset": offset, "error": 0.5})
    assert ("clocks.off" in world.find(check_clocks)) is found


def test_clocks_of_controllers_that_differ(world: World) -> None:
    """Each is near enough to this machine, but not to the other one."""
    world.controller("controller-2", clock={"offset": -0.8, "error": 0.1})
    world.controller(clock={"offset": 0.3, "error": 0.1})
    assert world.find(check_clocks) == {}
    world.controller(clock={"offset": 0.6, "error": 0.1})
    found = world.find(check_clocks)
    assert found.keys() == {"clocks.apart"}
    assert found["clocks.apart"].title == "the clocks of controller-2 and controller-1 are 1.4 s apart"


@pytest.mark.parametrize(
    ("ephemeral", "reserved", "taken"),
    [
        ([32768, 60999], [], ""),
        ([1024, 65535], [[1024, 32767]], ""),
        ([1024, 65535], [[2379, 2381], [6443, 6443], [10250, 10260]], "30000-32767"),
        ([10000, 20000], [], "10250, 10256, 10257 and 1 more"),
        ([32000, 60999], [], "32000-32767"),
        ([], [], ""),
    ],
)
def test_ports_that_outgoing_connections_get(
    world: World, ephemeral: list[int], reserved: list[list[int]], taken: str
) -> None:
    """Linux's own range is fine, and so is a larger one without the ports that are reserved."""
    world.controller(identity={"machine_id": "", "ephemeral": ephemeral, "reserved": reserved})
    found = world.find(check_ports)
    assert [item.title.partition(": ")[2].partition(": ")[2] for item in found.values()] == ([taken] if taken else [])
    assert found.keys() == ({"ports.ephemeral"} if taken else set())


@pytest.mark.parametrize(
    ("ports", "found"), [("30000-32767", False), ("2000+9000", True), ("6443", True), ("", False), ("x-y", False)]
)
def test_ports_that_services_get(world: World, ports: str, found: bool) -> None:
    """A range that holds the API's own port lets a Service take it; every form that kube-apiserver accepts is read."""
    world.pod("kube-apiserver-abc", {"app": "kube-apiserver"}, flags=(*FLAGS, f"--service-node-port-range={ports}"))
    assert ("ports.node-ports" in world.find(check_ports)) is found
