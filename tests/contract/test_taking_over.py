"""What Helm makes of kubeadm's objects when the chart `kubernetes` takes them over: what others added stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from testkit.api_servers import ApiServers, api_servers
from testkit.lab_cluster import OLD
from upgrader.adapters.helm import HelmAdapter
from upgrader.adapters.kube import KubeAdapter
from upgrader.built_in_files import charts_folder
from upgrader.model.release import ReleaseSpec
from upgrader.ports import Kind

_CONFIG_MAPS, _ACCOUNTS, _SERVICES = (Kind("v1", name) for name in ("configmaps", "serviceaccounts", "services"))
_SYSTEM = "kube-system"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ApiServers, KubeAdapter]]:
    """A real kube-apiserver with its etcd: no controller, and no node."""
    with api_servers(tmp_path_factory.mktemp("api")) as found, found.serving(OLD, "--allow-privileged=true") as kube:
        yield found, kube


def test_what_others_added_stays(servers: tuple[ApiServers, KubeAdapter]) -> None:
    """Keys of the two ConfigMaps that aren't kubeadm's, and a ServiceAccount's login for a registry, also when the
    release is upgraded.
    """
    found, kube = servers
    for name, data in (
        ("coredns", {"Corefile": ".:53 {\n    ready\n}\n", "hosts": "192.0.2.1 a.example\n"}),
        ("kube-proxy", {"config.conf": "mode: ipvs\n", "kubeconfig.conf": "clusters: []\n", "more.conf": "a: 1\n"}),
    ):
        kube.create(_CONFIG_MAPS, {"metadata": {"name": name}, "data": data}, _SYSTEM)
        login: dict[str, Any] = {"metadata": {"name": name}, "imagePullSecrets": [{"name": "login"}]}
        kube.create(_ACCOUNTS, login, _SYSTEM)
    helm = HelmAdapter(found.kubeconfig())
    values = {"kubernetesVersion": str(OLD), "kubeProxy": {"server": "https://192.0.2.1:6443"}}
    spec = ReleaseSpec("kubernetes", _SYSTEM, charts_folder() / "kubernetes", values)
    try:
        for _ in range(2):
            helm.upgrade(spec, timeout_seconds=60, watch=lambda: None, take_ownership=True, wait=False)
    finally:
        helm.close()
    for name, key, text in (("coredns", "hosts", "192.0.2.1 a.example\n"), ("kube-proxy", "more.conf", "a: 1\n")):
        map_, account = kube.get(_CONFIG_MAPS, name, _SYSTEM), kube.get(_ACCOUNTS, name, _SYSTEM)
        assert map_ and map_["data"][key] == text
        assert "meta.helm.sh/release-name" in map_["metadata"]["annotations"]
        assert account and account["imagePullSecrets"] == [{"name": "login"}]
    kube_proxy = kube.get(_CONFIG_MAPS, "kube-proxy", _SYSTEM)
    assert kube_proxy and "192.0.2.1:6443" in kube_proxy["data"]["kubeconfig.conf"]
