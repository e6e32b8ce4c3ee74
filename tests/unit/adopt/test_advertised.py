"""Where kubeadm's kube-apiserver is for pods, and where the charts' one will be."""

from __future__ import annotations

import pytest

from tests.unit.adopt.kubeadm_cluster import facts, static_pod
from upgrader.adopt.advertised import check_advertised
from upgrader.errors import Blocked


def test_another_address_than_the_nodes_is_refused() -> None:
    """A VM with two networks: pods of other nodes would be sent to the one that only this node has."""
    controllers = facts().controllers
    check_advertised(controllers, ("10.0.0.1",))
    with pytest.raises(Blocked, match=r"advertises 10\.0\.0\.1, but .* is 10\.0\.2\.15") as no:
        check_advertised(controllers, ("10.0.2.15",))
    assert "--node-ip=10.0.0.1" in no.value.remedy


def test_no_kubelet_is_told_to_register_a_virtual_ip() -> None:
    """Several controllers advertise one address: as a node's own, it would be that of several machines."""
    pods = [{"kube-apiserver": static_pod("kube-apiserver", "--advertise-address=10.0.0.100")} for _ in range(2)]
    with pytest.raises(Blocked, match=r"controller-1 advertises 10\.0\.0\.100") as no:
        check_advertised(facts(*pods).controllers, ("10.0.0.1", "10.0.0.2"))
    assert "node-ip" not in no.value.remedy
    assert "set --advertise-address in /etc/kubernetes/manifests/kube-apiserver.yaml to its node's" in no.value.remedy
    with pytest.raises(Blocked) as no:
        check_advertised(facts(pods[0]).controllers, ("10.0.0.1",))
    assert "If it is a virtual IP, set --advertise-address in " in no.value.remedy, "one controller doesn't tell"


def test_no_kubelet_is_told_to_register_a_loopback_address() -> None:
    """It would refuse to start: the node's own address is for the flag."""
    for address in ("127.0.0.1", "::1"):
        pod = static_pod("kube-apiserver", f"--advertise-address={address}")
        with pytest.raises(Blocked, match=f"controller-1 advertises {address}") as no:
            check_advertised(facts({"kube-apiserver": pod}).controllers, ("10.0.0.1",))
        assert "node-ip" not in no.value.remedy and "set --advertise-address in " in no.value.remedy


def test_no_address_of_its_own_is_the_nodes() -> None:
    """kube-apiserver advertises the machine's own where it is told all addresses, as without the flag."""
    for address in ("0.0.0.0", "::"):
        pod = static_pod("kube-apiserver", f"--advertise-address={address}")
        check_advertised(facts({"kube-apiserver": pod}).controllers, ("10.9.9.9",))


def test_an_empty_address_leaves_the_one_before_it() -> None:
    """So Kubernetes reads such flags."""
    pod = static_pod("kube-apiserver", "--advertise-address=10.0.0.7", "--advertise-address=")
    with pytest.raises(Blocked, match=r"advertises 10\.0\.0\.7"):
        check_advertised(facts({"kube-apiserver": pod}).controllers, ("10.0.0.1",))


def test_an_address_may_be_written_in_two_ways() -> None:
    """IPv6 has several texts for one address; and a pod without the flag takes its node's."""
    pod = static_pod("kube-apiserver", "--advertise-address=2001:DB8:0:0::1")
    check_advertised(facts({"kube-apiserver": pod}).controllers, ("2001:db8::1",))
    check_advertised(facts({"kube-scheduler": static_pod("kube-scheduler")}).controllers, ("10.9.9.9",))


@pytest.mark.parametrize(
    ("advertised", "internal", "refused"),
    [
        ("192.168.56.10", "10.0.2.15", True),  # Vagrant: VirtualBox's NAT is every VM's first network
        ("203.0.113.7", "10.0.0.4", True),  # a public address of a cloud's machine
        ("fd00::10", "10.0.0.4", True),  # of two families, the other one
        ("10.0.0.4", "10.0.0.4", False),
        ("fd00:0:0::10", "fd00::10", False),
    ],
)
def test_networks_of_machines(advertised: str, internal: str, refused: bool) -> None:
    """What kubeadm was told, and what the kubelet registered: adoption keeps the address, or names both."""
    pod = static_pod("kube-apiserver", f"--advertise-address={advertised}")
    controllers = facts({"kube-apiserver": pod}).controllers
    if not refused:
        check_advertised(controllers, (internal,))
        return
    with pytest.raises(Blocked) as caught:
        check_advertised(controllers, (internal,))
    assert advertised in caught.value.message and internal in caught.value.message
