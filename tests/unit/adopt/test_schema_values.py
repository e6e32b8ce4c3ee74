"""What the charts' schemas would refuse is told by kubeadm's own flag or field, before the charts are rendered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from tests.unit.adopt.kubeadm_pods import kubeadm_facts, kubeadm_pod, volume
from upgrader.adapters.helm import HelmAdapter
from upgrader.adopt.derive import derive_values
from upgrader.adopt.facts import StaticPod
from upgrader.adopt.static_pod_checks import check_pods
from upgrader.built_in_files import charts_folder
from upgrader.errors import Blocked

_DIGEST = "sha256:" + "0a" * 32
_SERVICES = "service-cluster-ip-range"


@pytest.fixture
def helm(tmp_path: Path) -> Iterator[HelmAdapter]:
    """The real Helm, with no cluster: rendering needs none."""
    adapter = HelmAdapter(tmp_path / "kubeconfig")
    yield adapter
    adapter.close()


def _checked(pod: StaticPod) -> None:
    check_pods(FakeKube(), FakeHosts(), kubeadm_facts(pod).controllers)


@pytest.mark.parametrize(
    "services",
    [
        "X.X.X.0/12",
        "10.96.0.0",
        "10.96.0.0/99",
        "10.96.0.0/255.240.0.0",
        "10.96.0.0/12, fd00::/108",
        " 10.96.0.0/12",
        "10.96.0.0/12,",
        "10.96.0.0/12,10.112.0.0/12",
        "10.96.0.0/12,fd00::/108,10.112.0.0/12",
        "$(SERVICES)",
    ],
)
def test_services_that_are_no_range_are_refused_by_their_flag(services: str) -> None:
    """kube-apiserver can't start with it, and Helm's error was about `network.serviceSubnet`, which is in no file."""
    with pytest.raises(Blocked, match=f"^kube-apiserver's static pod on controller-1 has --{_SERVICES}='") as caught:
        _checked(kubeadm_pod("kube-apiserver", {_SERVICES: services}))
    assert services in caught.value.message and "nothing was changed" in caught.value.message
    assert "10.96.0.0/12,fd00:10:96::/112" in caught.value.remedy


@pytest.mark.parametrize(
    "services", ["", "10.96.0.0/12", "10.96.5.1/12", "010.96.0.0/12", "fd00::/108", "fd00::/108,10.96.0.0/12"]
)
def test_services_that_kubernetes_and_the_chart_accept(helm: HelmAdapter, services: str) -> None:
    """Of either family or both, by an address within it, as it was written before Go refused a zero in front."""
    pod = kubeadm_pod("kube-apiserver", {_SERVICES: services})
    _checked(pod)
    derived = derive_values(kubeadm_facts(pod), ("10.0.0.1",), {}, helm, charts_folder())
    assert derived.values["kube-apiserver"]["network"]["serviceSubnet"] == (services or "10.0.0.0/24")


@pytest.mark.parametrize("component", ["kube-apiserver", "kube-controller-manager", "kube-scheduler"])
@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("", "has no image"),
        ("example.org/x@sha512:" + "0a" * 64, "has the image example.org/x@sha512:"),
        ("example.org/x:v1.36.3@sha256:abc", "has the image example.org/x:v1.36.3@sha256:abc"),
    ],
)
def test_an_image_that_the_charts_could_not_name_is_refused(component: str, image: str, words: str) -> None:
    """Their digest is of sha256."""
    with pytest.raises(Blocked, match=f"^{component}'s static pod on controller-1 {words}") as caught:
        _checked(kubeadm_pod(component, container={"image": image}))
    assert "tag" in caught.value.message and "on every controller" in caught.value.remedy
    _checked(kubeadm_pod(component, container={"image": f"example.org/x:v1.36.3@{_DIGEST}"}))


def test_so_it_is_with_the_images_of_add_ons_that_no_value_replaces(helm: HelmAdapter) -> None:
    """CoreDNS by another digest; a value of the operator's own counts."""
    known = kubeadm_facts()
    odd = {"spec": {"replicas": 2, "template": {"spec": {"containers": [{"image": "example.org/x@sha512:0a"}]}}}}
    with pytest.raises(Blocked, match=r"^the pod template of kube-system/coredns has the image example"):
        derive_values(replace(known, dns_deployment=odd), ("10.0.0.1",), {}, helm, charts_folder())
    with pytest.raises(Blocked, match=r"^the pod template of kube-system/kube-proxy has the image"):
        derive_values(replace(known, proxy_daemonset=odd), ("10.0.0.1",), {}, helm, charts_folder())
    own = {"kubernetes": {"coredns": {"image": {"repository": "example.org/x", "digest": _DIGEST}}}}
    derive_values(replace(known, dns_deployment=odd), ("10.0.0.1",), own, helm, charts_folder())


@pytest.mark.parametrize("flag", ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"])
@pytest.mark.parametrize("path", ["scheduler.conf", "srv/scheduler.conf"])
def test_a_kubeconfig_without_the_slash_at_its_beginning_is_refused(flag: str, path: str) -> None:
    """In a volume or not: a component that starts in the root finds it there."""
    pod = kubeadm_pod("kube-scheduler", {flag: path, "leader-elect": "true"})
    if flag == "kubeconfig":
        pod = kubeadm_pod("kube-scheduler", {flag: path}, volume("kubeconfig", "/srv/scheduler.conf", at=f"/{path}"))
    with pytest.raises(Blocked, match=f"has --{flag}={path}, which is not an absolute path") as caught:
        _checked(pod)
    assert f"Write /{path} there" in caught.value.remedy


def test_a_file_in_the_root_without_its_slash_is_refused_as_any_other() -> None:
    """A word that names no mounted file is no path."""
    mounted = volume("policy", "/srv/policy.yaml", "File", at="/policy.yaml")
    with pytest.raises(Blocked, match=r"has --audit-policy-file=policy\.yaml, which is not an absolute path"):
        _checked(kubeadm_pod("kube-apiserver", {"audit-policy-file": "policy.yaml"}, mounted))


def test_a_folder_of_certificates_that_is_no_path_from_the_root_is_refused(helm: HelmAdapter) -> None:
    """kubeadm refuses it, too; it was edited since."""
    odd = replace(kubeadm_facts(), configuration={"kubernetesVersion": "v1.36.3", "certificatesDir": "etc/pki"})
    with pytest.raises(Blocked, match="kubeadm-config: certificatesDir: 'etc/pki' is not an absolute path"):
        derive_values(odd, ("10.0.0.1",), {}, helm, charts_folder())
