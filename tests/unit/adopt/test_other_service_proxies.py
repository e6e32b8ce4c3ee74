"""Clusters in which another program does kube-proxy's work, as Cilium, Calico's eBPF and kube-router leave them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from tests.unit.adopt.kubeadm_pods import kubeadm_facts, kubeadm_pod
from tests.unit.adopt.test_addon_parts import COREDNS
from tests.unit.adopt.test_client_addresses import ONE, Controllers
from upgrader.adapters.helm import HelmAdapter
from upgrader.adopt.addon_parts import check_addon
from upgrader.adopt.derive import derive_values
from upgrader.adopt.facts import read_facts
from upgrader.built_in_files import charts_folder
from upgrader.errors import Blocked
from upgrader.model.manifest import objects_in
from upgrader.model.release import ReleaseSpec
from upgrader.ports import Kind

_SERVICE = "KUBERNETES_SERVICE_HOST"
"""What Cilium's `k8sServiceHost` sets: where a program finds the API while nothing serves its Service yet."""
_BY_HAND = [{"name": _SERVICE, "value": "10.0.0.9"}, {"name": "KUBERNETES_SERVICE_PORT", "value": "6443"}]


@pytest.fixture
def helm(tmp_path: Path) -> Iterator[HelmAdapter]:
    """The real Helm, with no cluster: rendering needs none."""
    adapter = HelmAdapter(tmp_path / "kubeconfig")
    yield adapter
    adapter.close()


def _kube(**config_maps: dict[str, str]) -> FakeKube:
    """A cluster of kubeadm with CoreDNS, Cilium's DaemonSet, and more ConfigMaps."""
    kube = FakeKube()
    own = {
        "kubeadm-config": {"ClusterConfiguration": "kubernetesVersion: v1.36.3"},
        "coredns": {"Corefile": ".:53 {}"},
    }
    for name, data in (own | config_maps).items():
        kube.put(Kind("v1", "configmaps"), {"metadata": {"name": name, "namespace": "kube-system"}, "data": data})
    service = {"metadata": {"name": "kube-dns", "namespace": "kube-system"}, "spec": {"clusterIP": "10.96.0.10"}}
    kube.put(Kind("v1", "services"), service)
    kube.put(Kind("apps/v1", "deployments"), COREDNS)
    agent = {"spec": {"containers": [{"name": "cilium-agent", "env": _BY_HAND}], "hostNetwork": True}}
    meta = {"name": "cilium", "namespace": "kube-system"}
    kube.put(Kind("apps/v1", "daemonsets"), {"metadata": meta, "spec": {"template": agent}})
    return kube


@pytest.mark.parametrize("left", [{}, {"kube-proxy": {"config.conf": "mode: nftables", "kubeconfig.conf": "a: b"}}])
def test_only_the_daemonset_of_kube_proxy_is_missed(left: dict[str, dict[str, str]]) -> None:
    """Whether its ConfigMap was removed with it or not: the error names the value, and with that neither is asked for.
    CoreDNS, which is kubeadm's there, is taken over.
    """
    kube = _kube(**left)
    what = "daemonsets" if left else "configmaps"
    with pytest.raises(Blocked, match=f"{what} kube-system/kube-proxy does not exist; nothing was changed") as caught:
        read_facts(kube, FakeHosts(), (), ())
    assert "`kubeProxy.enabled: false`" in caught.value.remedy
    found = read_facts(kube, FakeHosts(), (), (), {"kubeProxy"})
    assert (found.proxy_daemonset, found.proxy_config, set(found.addons)) == (None, "", {"coredns"})


@pytest.mark.parametrize("component", ["kube-apiserver", "kube-controller-manager", "kube-scheduler"])
def test_a_static_pod_keeps_the_apis_address_that_it_was_given(helm: HelmAdapter, component: str) -> None:
    """The chart's pod has it, too, in place of the Service's address that the kubelet would set."""
    known = kubeadm_facts(kubeadm_pod(component, container={"env": _BY_HAND}))
    values = derive_values(known, ("10.0.0.1",), {}, helm, charts_folder()).values
    release = "kube-apiserver" if component == "kube-apiserver" else "kubernetes"
    spec = ReleaseSpec(release, "kube-system", charts_folder() / release, values[release])
    rendered = objects_in(helm.render(spec, offline=True)).values()
    (pod,) = (
        each["spec"]["template"]["spec"]
        for each in rendered
        if each["kind"] == "Deployment" and each["metadata"]["name"] == component
    )
    (container,) = (each for each in pod["containers"] if each["name"] == component)
    assert {each["name"]: each.get("value") for each in container["env"]}[_SERVICE] == "10.0.0.9"


def test_coredns_with_the_apis_address_is_refused_by_the_variable(helm: HelmAdapter) -> None:
    """The chart has no variables for CoreDNS, which would ask at the Service then; left alone, it keeps them."""
    (container,) = COREDNS["spec"]["template"]["spec"]["containers"]
    pod = {**COREDNS["spec"]["template"]["spec"], "containers": [{**container, "env": _BY_HAND}]}
    dns: dict[str, Any] = {**COREDNS, "spec": {**COREDNS["spec"], "template": {"spec": pod}}}
    for enabled in (True, False):
        values = {"coredns": {"enabled": enabled}, "kubeProxy": {"enabled": False}}
        spec = ReleaseSpec("kubernetes", "kube-system", charts_folder() / "kubernetes", values)
        rendered = helm.render(spec, offline=True)
        if enabled:
            with pytest.raises(Blocked, match=f"variable {_SERVICE}") as caught:
                check_addon(dns, rendered, {})
            assert "`coredns.enabled: false`" in caught.value.remedy
        else:
            check_addon(dns, rendered, {})


@pytest.mark.parametrize("given", ["127.0.0.1", "10.0.0.9"])
def test_an_address_that_only_a_service_proxy_was_given_is_served(given: str) -> None:
    """No kubeconfig has it. Its client verifies the certificate, so that has it, and kube-apiserver's HAProxy listens
    there.
    """
    controllers = Controllers()
    assert given not in controllers.found()
    controllers.certify(ONE, "10.0.0.1", given)
    assert controllers.found() == (given,)
