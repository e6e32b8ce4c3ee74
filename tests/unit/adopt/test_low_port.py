"""A port below 1024, as of `bindPort: 443`: the charts' pods have no capability to listen there."""

from __future__ import annotations

import pytest

from testkit.fakes.hosts import FakeHosts
from tests.unit.adopt.kubeadm_pods import kubeadm_facts, kubeadm_pod
from upgrader.adopt.low_port import check_low_port
from upgrader.errors import Blocked
from upgrader.ports import CommandResult


def _check(port: str, first: str) -> None:
    """On a controller whose kernel gives ports from `first` on to every process."""
    hosts = FakeHosts()
    hosts.commands["cat"] = CommandResult(0, f"{first}\n", "")
    check_low_port(hosts, kubeadm_facts(kubeadm_pod("kube-apiserver", {"secure-port": port})).controllers)


@pytest.mark.parametrize(("port", "first"), [("443", "1024"), ("443", "444"), ("1023", "1024")])
def test_a_port_that_the_kernel_does_not_give_them_is_refused(port: str, first: str) -> None:
    """HAProxy and kube-apiserver would end at their start, after the API of a single controller was interrupted."""
    with pytest.raises(Blocked, match=f"controller-1: kube-apiserver listens on port {port}, .*from {first} on") as no:
        _check(port, first)
    assert "nothing was changed" in no.value.message
    assert f"sysctl -w net.ipv4.ip_unprivileged_port_start={port}" in no.value.remedy


@pytest.mark.parametrize(("port", "first"), [("443", "443"), ("443", "0"), ("1024", "1024"), ("6443", "1024")])
def test_a_port_that_it_gives_them_is_taken_over(port: str, first: str) -> None:
    """By its setting, or because every process may listen there."""
    _check(port, first)


def test_the_usual_port_needs_no_question() -> None:
    """No command is run on a controller; nor on one whose static pod was retired."""
    hosts = FakeHosts()
    check_low_port(hosts, kubeadm_facts().controllers)
    retired = kubeadm_facts(kubeadm_pod("kube-apiserver", {"secure-port": "443"})).controllers[0]
    check_low_port(hosts, [type(retired)(retired.host, {}, retired.active)])
    assert not hosts.ran
