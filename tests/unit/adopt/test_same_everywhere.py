"""What the static pods of several controllers may have of their own."""

from __future__ import annotations

import pytest

from tests.unit.adopt.kubeadm_cluster import facts
from tests.unit.adopt.kubeadm_pods import FLAGS, kubeadm_pod
from upgrader.adopt.facts import KubeadmFacts
from upgrader.adopt.same_everywhere import check_same_everywhere
from upgrader.errors import Blocked

_ETCD = "/etc/ssl/etcd/ssl/node-node1.pem"


def _two(flag: str, *values: str) -> KubeadmFacts:
    """Two controllers of Kubespray, whose components have these values of a flag.

    Both name etcd's certificate of the first one: on the second one, that path is a symbolic link to its own.
    """
    pods = ({name: kubeadm_pod(name, _flags(name, flag, value)) for name in FLAGS} for value in values)
    return facts(*pods)


def _flags(component: str, flag: str, value: str) -> dict[str, str]:
    return {flag: value, **({"etcd-certfile": _ETCD} if component == "kube-apiserver" else {})}


@pytest.mark.parametrize("flag", ["bind-address", "advertise-address"])
def test_addresses_of_each_controllers_own_are_no_difference(flag: str) -> None:
    """The charts' pods listen at their node's address, wherever kubeadm's did."""
    check_same_everywhere(_two(flag, "10.0.0.1", "10.0.0.2"))


def test_flags_must_be_the_same() -> None:
    """One chart can't be two configurations: the flag and the controller are named."""
    with pytest.raises(Blocked, match="kube-apiserver on controller-2 differs from controller-1 in --v"):
        check_same_everywhere(_two("v", "2", "4"))


def test_other_addresses_must_be_the_same() -> None:
    """One release has one list of etcd's servers."""
    with pytest.raises(Blocked, match="controller-2 differs from controller-1 in --etcd-servers"):
        check_same_everywhere(_two("etcd-servers", "https://10.0.0.1:2379", "https://10.0.0.2:2379"))
