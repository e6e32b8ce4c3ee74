"""The controllers' kernels, and the connections that wait in the queue of a kube-apiserver that stops."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.hosts import FakeHosts
from tests.unit.preflight.conftest import World
from upgrader.adopt.accept_queues import ResetQueuesStep
from upgrader.model.cluster import Host
from upgrader.model.observed import ObservedRelease
from upgrader.model.release import Revision
from upgrader.ports import CommandResult
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
    assert "resets connections that the old one has not accepted" in found.diagnosis
    assert "sysctl -p /etc/sysctl.d/90-upgrader.conf" in found.remedy


@pytest.mark.parametrize("kept", [None, "0"], ids=["set by nobody", "set by the adoption, and unset by somebody"])
def test_what_the_remedy_sets_is_taken_back_by_the_undo_of_an_adoption(
    world: World, tmp_path: Path, kept: str | None
) -> None:
    """As it was before either of them; no file stays."""
    live, folder = tmp_path / "proc/sys/net/ipv4/tcp_migrate_req", tmp_path / "etc/kubernetes/upgrader"
    for each in (live.parent, tmp_path / "etc/sysctl.d", tmp_path / "bin", folder):
        each.mkdir(parents=True)
    live.write_text("0\n")
    if kept is not None:
        (folder / "net.ipv4.tcp_migrate_req").write_text(kept)
    program = tmp_path / "bin/sysctl"
    program.write_text(
        f'#!/bin/sh\n[ "$1" != -n ] || exec cat {live}\ngrep -q net.ipv4.tcp_migrate_req=1 "$2"\necho 1 > {live}\n'
    )
    program.chmod(0o755)
    found = adopted(world, {"machine_id": "", "migrate_req": 0}).find(check_accept_queues)["accept-queues.dropped"]
    line = found.remedy.partition("as root: ")[2].partition(" (`upgrader adopt --undo`")[0]
    line = line.replace(" /etc/", f" {tmp_path}/etc/")
    subprocess.run(["sh", "-euc", line], check=True, env={"PATH": f"{program.parent}:/usr/bin:/bin"})
    assert live.read_text() == "1\n"

    def sh(_host: Host, command: Sequence[str], _stdin: bytes) -> CommandResult:
        done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)
        return CommandResult(done.returncode, done.stdout, done.stderr)

    hosts = FakeHosts()
    hosts.commands["sh"] = sh
    ResetQueuesStep(hosts, (Host("controller-1", "10.0.0.1"),)).apply(lambda _: None)
    assert live.read_text().strip() == "0"
    assert [each for each in (tmp_path / "etc").rglob("*") if each.is_file()] == []


def test_cluster_that_is_not_adopted(world: World) -> None:
    """One kube-apiserver of kubeadm shares its address with no other, and `adopt` sets the sysctl."""
    world.observed = replace(world.observed, releases={})
    world.controller(identity={"machine_id": "", "migrate_req": 0})
    assert world.find(check_accept_queues) == {}
