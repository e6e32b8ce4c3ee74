"""A cluster whose CA signs elsewhere: kubeadm's external CA mode, without the keys of both CAs on the controller."""

from __future__ import annotations

from testkit.kinds.static_pods import change_static_pod, words_of
from testkit.lab_cluster import LabCluster, until

__all__ = ["has_no_ca_key", "take_the_ca_keys_away"]

_PKI = "/etc/kubernetes/pki"
_KEYS = f"{_PKI}/ca.key {_PKI}/front-proxy-ca.key"
_FLAGS = {"cluster-signing-cert-file": "", "cluster-signing-key-file": ""}


def take_the_ca_keys_away(cluster: LabCluster) -> None:
    """kube-controller-manager, which would sign by them, has both flags empty then, as kubeadm writes it."""
    change_static_pod(cluster, "kube-controller-manager", _FLAGS)
    cluster.on_controller(f"rm {_KEYS}")


def has_no_ca_key(cluster: LabCluster) -> None:
    """No key of a CA is on the controller, and each kube-controller-manager has the empty flags."""
    assert cluster.on_controller(f"ls {_KEYS} 2>/dev/null || true") == ""
    until("every kube-controller-manager to sign nothing", lambda: _none_signs(cluster), timeout_seconds=120)


def _none_signs(cluster: LabCluster) -> bool:
    wanted = {f"--{name}=" for name in _FLAGS}
    found = words_of(cluster, "kube-controller-manager")
    return found != [] and all(wanted <= words for words in found)
