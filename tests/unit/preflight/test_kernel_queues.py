"""The controllers' kernels, and the connections that wait in the queue of a kube-apiserver that stops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.preflight.conftest import World
from upgrader.model.observed import ObservedRelease
from upgrader.model.release import Revision
from upgrader.preflight.accept_queues import check_accept_queues


def adopted(world: World, identity: dict[str, Any]) -> World:
    """A cluster whose kube-apiserver is a release, and what a controller's kernel says."""
    release = ObservedRelease((Revision(1, "deployed", "1.36.3"),), "")
    world.observed = replace(world.observed, releases={"kube-apiserver": release})
    world.controller(identity=identity)
    return world


@pytest.mark.parametrize(
    ("identity", "found"),
    [
        ({"machine_id": "", "migrate_req": 1}, ""),
        ({"machine_id": "", "migrate_req": None}, ""),
        ({"machine_id": "", "migrate_req": 0}, "accept-queues.dropped"),
        ({"unknown": "it took more than 9 s"}, "accept-queues.unread"),
    ],
)
def test_queue_that_is_lost(world: World, identity: dict[str, Any], found: str) -> None:
    """A kernel without the sysctl can't do better; one that wasn't read is not taken for one that has it set."""
    assert list(adopted(world, identity).find(check_accept_queues)) == ([found] if found else [])


def test_what_it_costs_and_how_it_is_set(world: World) -> None:
    """The finding names the controller, its value, whose connections are reset, and a command to paste."""
    found = adopted(world, {"machine_id": "", "migrate_req": 0}).find(check_accept_queues)["accept-queues.dropped"]
    assert found.title == "controller-1: net.ipv4.tcp_migrate_req is 0, not 1"
    assert "resets the connections that the old one has not accepted" in found.diagnosis
    assert "sysctl -p /etc/sysctl.d/90-accept-queues.conf" in found.remedy


def test_cluster_that_is_not_adopted(world: World) -> None:
    """One kube-apiserver of kubeadm shares its address with no other, and `adopt` sets the sysctl."""
    world.observed = replace(world.observed, releases={})
    world.controller(identity={"machine_id": "", "migrate_req": 0})
    assert world.find(check_accept_queues) == {}
