"""Which etcd servers a kube-apiserver's flags name."""

from __future__ import annotations

from upgrader.model.etcd_client import etcd_servers


def test_servers_of_each_etcd() -> None:
    """Those for all objects come first, also from a repeated flag; then those of each resource kept apart."""
    words = (
        "kube-apiserver",
        "--etcd-servers=https://a:2379,https://b:2379",
        "--etcd-servers",
        "https://c:2379",
        "--etcd-servers-overrides=/events#https://d:2379;https://e:2379,coordination.k8s.io/leases#https://f:2379",
    )
    assert etcd_servers(words) == (
        ("https://a:2379", "https://b:2379", "https://c:2379"),
        ("https://d:2379", "https://e:2379"),
        ("https://f:2379",),
    )
    assert etcd_servers(("kube-controller-manager", "--v=2")) == ()
