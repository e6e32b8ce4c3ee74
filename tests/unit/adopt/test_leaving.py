"""Whether a controller may leave, by the inventory and by what its node says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.hosts import FakeHosts
from tests.unit.recover.controllers import controller
from upgrader.adopt.leaving import (
    check_etcd_servers,
    control_plane_endpoint,
    controller_to_remove,
    own_addresses,
    registered_addresses,
    server_at,
    why_dead,
    why_silent,
)
from upgrader.errors import Blocked, UsageError
from upgrader.model.cluster import Cluster, Host
from upgrader.onhost.sending.host_facts import Examined
from upgrader.ports import CommandResult

ONE, TWO = Host("controller-1", "10.0.0.1"), Host("controller-2", "10.0.0.2")


def cluster(*hosts: Host) -> Cluster:
    """An inventory with these controllers."""
    return Cluster(Path(), Path(), "", Path("/c/hosts.yml"), hosts)


def node(ready: str) -> dict[str, Any]:
    """A node whose condition Ready has this status."""
    return {"status": {"conditions": [{"type": "Ready", "status": ready}]}}


def test_controllers_that_can_not_leave() -> None:
    """One that the inventory doesn't list, and the last one."""
    assert controller_to_remove(cluster(ONE, TWO), "controller-2") == TWO
    with pytest.raises(UsageError, match="has no 'worker-1'") as unknown:
        controller_to_remove(cluster(ONE, TWO), "worker-1")
    assert "controller-1, controller-2" in unknown.value.remedy
    with pytest.raises(Blocked, match="controller-1 is the only controller"):
        controller_to_remove(cluster(ONE), "controller-1")


@pytest.mark.parametrize("found", [None, node("False"), node("Unknown"), {"status": {}}])
def test_dead_is_who_neither_answers_nor_reports(found: dict[str, Any] | None) -> None:
    """A node that never reported isn't Ready either."""
    assert "no route" in why_dead("controller-2", found, "no route", serving=False, said=False)


def test_machine_that_may_live_is_not_taken_for_dead() -> None:
    """It would go on with its etcd and its checkpoints; and one that answers is asked to end them."""
    assert why_dead("controller-2", node("Unknown"), "", serving=False, said=False) == ""
    with pytest.raises(Blocked, match="answers over SSH, so it isn't dead"):
        why_dead("controller-2", node("Unknown"), "", serving=False, said=True)
    with pytest.raises(Blocked, match="its kubelet still reports") as reports:
        why_dead("controller-2", node("True"), "no route", serving=False, said=True)
    assert reports.value.remedy.endswith("no route")


def test_controller_whose_api_server_serves_is_not_dead() -> None:
    """Its kubelet and its sshd are dead: its member of etcd lives, and must not be removed under it."""
    with pytest.raises(Blocked, match="controller-2, but its kube-apiserver serves") as caught:
        why_dead("controller-2", node("Unknown"), "no route", serving=True, said=True)
    assert "default get endpointslice kubernetes" in caught.value.remedy


def test_only_a_machine_where_nothing_answers_is_dead() -> None:
    """One that answers and can't be examined lives: without python3, say, with a disk that hangs, or where the login is
    refused or the host key is unknown."""
    hosts, facts = FakeHosts(), controller("controller-2").facts
    hosts.commands["true"] = CommandResult(0, "", "")
    assert why_silent(hosts, Examined(TWO, facts)) == ""
    with pytest.raises(Blocked, match="controller-2: python3 can't be run; nothing was changed"):
        why_silent(hosts, Examined(TWO, None, "controller-2: python3 can't be run"))
    hosts.commands["true"] = CommandResult(1, "", "this account is currently not available")
    with pytest.raises(Blocked, match="currently not available; nothing was changed"):
        why_silent(hosts, Examined(TWO, None, "controller-2: the examination ended with 1"))
    hosts.refusing.add(TWO.name)
    with pytest.raises(Blocked, match="login refused; nothing was changed") as refused:
        why_silent(hosts, Examined(TWO, None, "controller-2: login refused"))
    assert "power it off permanently" in refused.value.remedy
    hosts.down.add(TWO.name)
    assert "no answer" in why_silent(hosts, Examined(TWO, None, "controller-2: timed out"))


def test_etcd_that_the_others_use_can_not_leave() -> None:
    """Kubespray's kube-apiservers know every member; kubeadm's each its own."""
    check_etcd_servers("controller-2", {"10.0.0.2"}, ["https://127.0.0.1:2379", "https://10.0.0.1:2379"])
    for server in ("https://10.0.0.2:2379", "https://controller-2:2379"):
        with pytest.raises(Blocked, match=f"use etcd on controller-2: {server}"):
            check_etcd_servers("controller-2", {"10.0.0.2"}, ["https://10.0.0.1:2379", server])


def test_addresses_of_a_node() -> None:
    """Not its names."""
    addresses = [{"type": "Hostname", "address": "c"}, {"type": "InternalIP", "address": "10.0.0.2"}]
    assert registered_addresses({"status": {"addresses": addresses}}) == ("10.0.0.2",)
    assert registered_addresses(None) == ()


def test_addresses_by_which_others_know_a_controller() -> None:
    """Also a virtual IP that it holds, and however they are written; but none that means another machine elsewhere."""
    hosts = FakeHosts()
    shared = ["inet 127.0.0.1/8", "inet6 ::1/128", "inet 172.17.0.1/16", "inet6 fe80::1/64"]
    shown = {ONE.name: shared, TWO.name: [*shared, "inet 10.0.0.9/32", "inet6 fd00::9/64", "inet6 fe80::2/64"]}

    def ip(host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        return CommandResult(0, "".join(f"2: eth0    {each} scope global\n" for each in shown[host.name]), "")

    hosts.commands["ip"] = ip
    host = Host("controller-2", "FD00:0:0::2")
    found = {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.2"}]}}
    assert own_addresses(hosts, host, found, beside=ONE, dead=False) == {"fd00::2", "10.0.0.2", "10.0.0.9", "fd00::9"}
    assert own_addresses(hosts, host, None, beside=ONE, dead=True) == {"fd00::2"}
    named = Host("controller-2", "controller-2.example.com")
    assert own_addresses(hosts, named, None, beside=ONE, dead=True) == {"controller-2.example.com"}
    with pytest.raises(Blocked, match="use etcd on controller-2"):
        check_etcd_servers("controller-2", {"fd00::2"}, ["https://[fd00:0::2]:2379"])


def kubeadm_config(text: str) -> dict[str, Any]:
    """ConfigMap kubeadm-config with this ClusterConfiguration."""
    return {"data": {"ClusterConfiguration": text}}


@pytest.mark.parametrize(
    ("endpoint", "found"),
    [
        ("api:8443", "api:8443"),
        ("api.example.com", "api.example.com:7443"),
        ("10.0.0.9", "10.0.0.9:7443"),
        ("'[fd00::1]'", "[fd00::1]:7443"),
        ("'[fd00::1]:443'", "[fd00::1]:443"),
        ("'FD00:0::1'", "[fd00::1]:7443"),
        ("''", ""),
    ],
)
def test_endpoint_of_kubeadm(endpoint: str, found: str) -> None:
    """The API's own port where it has none, as kubeadm does it; an IPv6 address gets the brackets of a URL."""
    config = kubeadm_config(f"controlPlaneEndpoint: {endpoint}\n")
    assert control_plane_endpoint(config, 7443) == found
    assert control_plane_endpoint(None, 7443) == ""


@pytest.mark.parametrize(
    "endpoint",
    [
        '"api:6443\\nusers: [{user: {exec: {command: /tmp/x}}}]"',
        '"api:6443\\n"',
        "'api/x'",
        "'user@api'",
        "'api:0'",
        "'api:65536'",
        "'api:port'",
        "'[fd00::x]:6443'",
        "'[10.0.0.9]:6443'",
        "'fd00::1%eth0'",
        "-api",
        "[api, b]",
        "{a: b}",
    ],
)
def test_endpoint_that_is_none_is_refused(endpoint: str) -> None:
    """It is written into a kubelet's kubeconfig, which may name a program that root starts."""
    with pytest.raises(Blocked, match=r"controlPlaneEndpoint.* nothing was changed") as caught:
        control_plane_endpoint(kubeadm_config(f"controlPlaneEndpoint: {endpoint}\n"), 6443)
    assert "\n" not in caught.value.message


def test_configuration_that_can_not_be_read_is_refused() -> None:
    """Also one whose aliases would fill the memory."""
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
        for before, name in zip("abcdefghi", "bcdefghij", strict=True)
    )
    for text in ("a: [", "- a", bomb):
        with pytest.raises(Blocked, match="kubeadm-config can't be read"):
            control_plane_endpoint(kubeadm_config(text), 6443)


def test_address_in_a_url() -> None:
    """A kubelet can be told of an address that a node has, and of nothing else that is in its place."""
    assert server_at("10.0.0.1", 6443) == "https://10.0.0.1:6443"
    assert server_at("fd00::1", 7443) == "https://[fd00::1]:7443"
    with pytest.raises(Blocked, match="not an IP address"):
        server_at("10.0.0.1:1/x", 6443)
