"""Clusters that aren't plain ones: their files become values, and nothing of them is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.fakes.kube import FakeKube
from tests.unit.adopt.kubeadm_cluster import facts
from tests.unit.adopt.kubeadm_pods import FLAGS, PKI, kubeadm_facts, kubeadm_pod, volume
from upgrader.adapters.helm import HelmAdapter
from upgrader.adopt.added_flags import added_flags
from upgrader.adopt.derive import Derived, derive_values
from upgrader.adopt.facts import ControllerFacts, KubeadmFacts, StaticPod
from upgrader.adopt.other_versions import about_other_versions
from upgrader.adopt.same_everywhere import check_same_everywhere
from upgrader.adopt.undo_differences import check_undo, released_in
from upgrader.adopt.values import base_values, rendered_flags
from upgrader.built_in_files import charts_folder
from upgrader.errors import Blocked
from upgrader.gates.manifest_workloads import pod_spec
from upgrader.model.components import RELEASE_AND_SECTION
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion

_AUDIT = "/var/log/kubernetes/audit"
_CIS = {
    "anonymous-auth": "false",
    "profiling": "false",
    "request-timeout": "300s",
    "audit-log-path": f"{_AUDIT}/audit.log",
    "audit-log-maxage": "30",
    "audit-policy-file": "/etc/kubernetes/audit/policy.yaml",
    "encryption-provider-config": "/etc/kubernetes/enc/enc.yaml",
    "tls-cipher-suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
}
"""What kube-bench asks of kube-apiserver, in part."""


@pytest.fixture
def helm(tmp_path: Path) -> Iterator[HelmAdapter]:
    """The real Helm, with no cluster: rendering needs none."""
    adapter = HelmAdapter(tmp_path / "kubeconfig")
    yield adapter
    adapter.close()


def _derived(helm: HelmAdapter, known: KubeadmFacts, own: Mapping[str, Any] | None = None) -> Derived:
    return derive_values(known, ("10.0.0.1",), own or {}, helm, charts_folder())


def _mounts(helm: HelmAdapter, derived: Derived, release: str, component: str) -> dict[str, tuple[str, bool]]:
    """Path in the container → path on the controller, and whether it is read-only, in the rendered chart."""
    spec = ReleaseSpec(release, "kube-system", charts_folder() / release, derived.values[release])
    pod = pod_spec(helm.render(spec, offline=True), component)
    paths = {each["name"]: each.get("hostPath", {}).get("path", "") for each in pod["volumes"]}
    assert len(paths) == len(pod["volumes"]), "two volumes of one name"
    (mounts,) = (each["volumeMounts"] for each in pod["containers"] if each["name"] == component)
    return {each["mountPath"]: (paths[each["name"]], each.get("readOnly", False)) for each in mounts}


def test_hardened_control_plane_keeps_its_log_and_its_keys(helm: HelmAdapter) -> None:
    """CIS's flags, the audit log's folder, which can be written, its policy and the encryption configuration."""
    api = kubeadm_pod(
        "kube-apiserver",
        _CIS,
        volume("audit", "/etc/kubernetes/audit/policy.yaml", "File"),
        volume("audit-log", _AUDIT, writable=True),
        volume("enc", "/etc/kubernetes/enc"),
        container={"resources": {"requests": {"cpu": "1"}, "limits": {"memory": "4Gi"}}},
    )
    derived = _derived(helm, kubeadm_facts(api))
    values = derived.values["kube-apiserver"]
    assert values["extraArgs"].items() >= _CIS.items()
    assert values["resources"] == {"requests": {"cpu": "1", "memory": "4Gi"}, "limits": {"memory": "4Gi"}}
    mounts = _mounts(helm, derived, "kube-apiserver", "kube-apiserver")
    assert mounts[_AUDIT] == (_AUDIT, False)
    assert mounts["/etc/kubernetes/audit/policy.yaml"] == ("/etc/kubernetes/audit/policy.yaml", True)
    assert mounts["/etc/kubernetes/enc"] == ("/etc/kubernetes/enc", True)
    assert "/etc/kubernetes/pki" not in mounts, "it has the keys of the CAs"


def _without(component: str, *flags: str) -> StaticPod:
    """kubeadm's static pod of a cluster that has no need of these flags."""
    words = [f"--{name}={value}" for name, value in FLAGS[component].items() if name not in flags]
    return kubeadm_pod(component, container={"command": [component, *words]})


def _bare(component: str, *flags: str) -> StaticPod:
    """A static pod with nothing but these flags."""
    return kubeadm_pod(component, container={"command": [component, *flags]})


@pytest.mark.parametrize(
    "pod",
    [
        kubeadm_pod("kube-apiserver"),
        kubeadm_pod("kube-apiserver", {"anonymous-auth": "True", "bind-address": "::", "profiling": "False"}),
        kubeadm_pod("kube-apiserver", {"goaway-chance": "0.01", "token-auth-file": f"{PKI}/tokens.csv"}),
        kubeadm_pod("kube-apiserver", container={"env": [{"name": "HTTPS_PROXY", "value": "http://proxy"}]}),
        _without("kube-apiserver", "enable-admission-plugins", "proxy-client-cert-file", "proxy-client-key-file"),
        _without("kube-controller-manager", "allocate-node-cidrs", "cluster-cidr", "service-cluster-ip-range"),
        _without("kube-controller-manager", "controllers", "leader-elect", "authentication-kubeconfig"),
        _without("kube-apiserver", "authorization-mode"),
        _without("kube-controller-manager", "allocate-node-cidrs"),
        kubeadm_pod("kube-scheduler", {"config": f"{PKI}/scheduler.yaml"}),
        _bare("kube-scheduler", f"--config={PKI}/scheduler.yaml"),
    ],
    ids=[
        "kubeadm",
        "Kubespray",
        "graceful and with tokens",
        "behind a proxy",
        "no aggregation",
        "no podSubnet",
        "fewer flags",
        "no authorization",
        "ranges of pods by the CNI",
        "a configuration",
        "only a configuration",
    ],
)
def test_an_adoption_can_be_undone_at_once(helm: HelmAdapter, pod: StaticPod) -> None:
    """What it gives to a component by itself is no difference that an undo would lose."""
    known = kubeadm_facts(pod)
    derived = _derived(helm, known)
    manifests = [
        helm.render(ReleaseSpec(name, "kube-system", charts_folder() / name, derived.values[name]), offline=True)
        for name in ("kube-apiserver", "kubernetes")
    ]
    retired = [ControllerFacts(each.host, {}, each.active) for each in known.controllers]
    version = KubernetesVersion.parse(known.version)
    check_undo(retired, released_in(manifests), added_flags(FakeKube(), helm, retired, version, charts_folder()))


@pytest.mark.parametrize(
    ("lacks", "release", "flag", "kept"),
    [
        (("kube-apiserver", "authorization-mode"), "kube-apiserver", "authorization-mode", "AlwaysAllow"),
        (("kube-controller-manager", "allocate-node-cidrs"), "kubernetes", "allocate-node-cidrs", "false"),
    ],
)
def test_what_a_flag_is_by_itself_stays(
    helm: HelmAdapter, lacks: tuple[str, ...], release: str, flag: str, kept: str
) -> None:
    """A static pod without one of kubeadm's flags has Kubernetes' default: with kubeadm's, clients would lose their
    rights, or nodes would get ranges of pods that the network plugin doesn't know.
    """
    derived = _derived(helm, kubeadm_facts(_without(*lacks)))
    spec = ReleaseSpec(release, "kube-system", charts_folder() / release, derived.values[release])
    assert rendered_flags(helm.render(spec, offline=True), lacks[0])[flag] == (kept,)
    (section,) = RELEASE_AND_SECTION[lacks[0]][1] or ("",)
    own = {"extraArgs": {flag: "chosen"}}
    chosen = _derived(helm, kubeadm_facts(_without(*lacks)), {release: {section: own} if section else own})
    values = chosen.values[release]
    assert (values[section] if section else values)["extraArgs"][flag] == "chosen", "the operator's own wins"


def test_what_is_given_as_empty_is_by_itself(helm: HelmAdapter) -> None:
    """An empty range of Services is Kubernetes' own, and the flags stay empty."""
    resources: dict[str, Any] = {"claims": [], "limits": {"cpu": "2"}, "requests": None}
    api = kubeadm_pod("kube-apiserver", {"service-cluster-ip-range": ""}, container={"resources": resources})
    manager = kubeadm_pod("kube-controller-manager", {"service-cluster-ip-range": "", "cluster-name": ""})
    derived = _derived(helm, kubeadm_facts(api, manager))
    assert derived.values["kube-apiserver"]["network"]["serviceSubnet"] == "10.0.0.0/24"
    assert derived.values["kube-apiserver"]["extraArgs"]["service-cluster-ip-range"] == ""
    assert derived.values["kube-apiserver"]["resources"] == {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}
    args = derived.values["kubernetes"]["controllerManager"]["extraArgs"]
    assert args["service-cluster-ip-range"] == args["cluster-name"] == ""


def test_a_file_says_how_requests_are_authorized(helm: HelmAdapter) -> None:
    """`--authorization-config` takes the place of the flag: kube-apiserver refuses both."""
    flags = {name: value for name, value in FLAGS["kube-apiserver"].items() if name != "authorization-mode"}
    words = [f"--{name}={value}" for name, value in {**flags, "authorization-config": f"{PKI}/authz.yaml"}.items()]
    api = kubeadm_pod("kube-apiserver", container={"command": ["kube-apiserver", *words]})
    args = _derived(helm, kubeadm_facts(api)).values["kube-apiserver"]["extraArgs"]
    assert "authorization-config" in args and "authorization-mode" not in args


def test_kubesprays_folders_are_taken_over(helm: HelmAdapter) -> None:
    """One controller of Kubespray: certificates in /etc/kubernetes/ssl, etcd as a service with certificates of its own
    in /etc/ssl/etcd/ssl, flags in Python's spelling.
    """
    pki, etcd = "/etc/kubernetes/ssl", "/etc/ssl/etcd/ssl"
    flags = {
        "anonymous-auth": "True",
        "apiserver-count": "1",
        "bind-address": "::",
        "etcd-cafile": f"{etcd}/ca.pem",
        "etcd-certfile": f"{etcd}/node-node1.pem",
        "etcd-keyfile": f"{etcd}/node-node1-key.pem",
        "etcd-servers": "https://10.0.0.1:2379",
        "profiling": "False",
        "service-cluster-ip-range": "10.233.0.0/18",
        "service-node-port-range": "30000-32767",
        "storage-backend": "etcd3",
    }
    api = kubeadm_pod("kube-apiserver", flags, volume("etcd-certs-0", etcd), pki=pki)
    derived = _derived(helm, kubeadm_facts(api, pki=pki))
    values = derived.values["kube-apiserver"]
    assert values["pki"] == {"hostPath": pki} == derived.values["kubernetes"]["pki"]
    assert values["etcd"] == {"servers": ["https://10.0.0.1:2379"]}
    assert values["extraArgs"]["etcd-certfile"] == f"{etcd}/node-node1.pem"
    mounts = _mounts(helm, derived, "kube-apiserver", "kube-apiserver")
    assert mounts[etcd] == (etcd, True)
    assert mounts[f"{pki}/apiserver.key"] == (f"{pki}/apiserver.key", True)


def test_an_etcd_without_tls_gets_no_certificates(helm: HelmAdapter) -> None:
    """External, over http: the static pod has no flags for them, or empty ones, and the chart's pod has no file."""
    servers = ["http://10.0.0.8:2379", "http://10.0.0.9:2379"]
    given = ("etcd-cafile", "etcd-certfile", "etcd-keyfile")
    pod = kubeadm_pod("kube-apiserver", {"etcd-servers": ",".join(servers)})
    for empty in (False, True):
        every = pod.container["command"]
        words = [word for word in every if word.removeprefix("--").partition("=")[0] not in given]
        words += [f"--{name}=" for name in given if empty]
        derived = _derived(helm, kubeadm_facts(kubeadm_pod("kube-apiserver", container={"command": words})))
        values = derived.values["kube-apiserver"]
        assert values["etcd"] == {"servers": servers}
        chart = charts_folder() / "kube-apiserver"
        rendered = helm.render(ReleaseSpec("kube-apiserver", "kube-system", chart, values), offline=True)
        flags = rendered_flags(rendered, "kube-apiserver")
        assert flags["etcd-servers"] == (",".join(servers),)
        assert not any(value for name in given for value in flags.get(name, ()))
        assert not {change.name for change in derived.changes} & {"etcd-servers", *given}
        mounts = _mounts(helm, derived, "kube-apiserver", "kube-apiserver")
        assert not any("etcd" in path for path in mounts)


def test_kubesprays_control_plane_with_kubeadms_etcd_is_taken_over(helm: HelmAdapter) -> None:
    """Three controllers, etcd as kubeadm's static pod, and kube-scheduler's configuration in a file."""
    pki, config = "/etc/kubernetes/ssl", "/etc/kubernetes/kubescheduler-config.yaml"
    pods = [
        {
            "kube-apiserver": kubeadm_pod(
                "kube-apiserver", {"bind-address": "::"}, pki=pki, address=f"10.0.0.{number}"
            ),
            "kube-controller-manager": kubeadm_pod("kube-controller-manager", {"bind-address": "::"}, pki=pki),
            "kube-scheduler": kubeadm_pod("kube-scheduler", {"config": config}, volume("config", config, "")),
        }
        for number in (1, 2, 3)
    ]
    known = replace(facts(*pods), configuration={"kubernetesVersion": "v1.36.3", "certificatesDir": pki})
    derived = derive_values(known, ("10.0.0.1", "10.0.0.2", "10.0.0.3"), {}, helm, charts_folder())
    assert derived.values["kubernetes"]["scheduler"]["extraArgs"] == {"config": config}
    assert _mounts(helm, derived, "kubernetes", "kube-scheduler")[config] == (config, True)
    assert _mounts(helm, derived, "kube-apiserver", "kube-apiserver").keys() >= {f"{pki}/etcd/ca.crt"}


def test_a_slash_after_the_folder_of_certificates(helm: HelmAdapter) -> None:
    """`certificatesDir: /etc/kubernetes/pki/`: kubeadm's flags have no second slash, and every file is in the pod."""
    plain, slash = (
        _derived(helm, replace(known, configuration={**known.configuration, "certificatesDir": written}))
        for known in [kubeadm_facts()]
        for written in ("/etc/kubernetes/pki", "/etc/kubernetes//pki/")
    )
    assert slash.values == plain.values
    assert replace(kubeadm_facts(), configuration={"certificatesDir": None}).certificates == "/etc/kubernetes/pki"


def test_certificates_of_each_controllers_own_are_refused() -> None:
    """Several controllers of Kubespray name their certificates for etcd after themselves: one release can't."""
    pods = [
        {
            name: kubeadm_pod(
                name, {"etcd-certfile": f"/etc/ssl/etcd/ssl/node-node{number}.pem"} if "api" in name else {}
            )
            for name in FLAGS
        }
        for number in (1, 2)
    ]
    with pytest.raises(Blocked, match=r"controller-2 differs from controller-1 in --etcd-certfile") as caught:
        check_same_everywhere(facts(*pods))
    assert "copy it to the same path on every controller" in caught.value.remedy


@pytest.mark.parametrize(
    ("services", "pods", "address"),
    [
        ("10.96.0.0/12,fd00:1::/112", "10.244.0.0/16,fd00:2::/56", "10.0.0.1"),
        ("fd00:1::/112", "fd00:2::/56", "fd00:3::1"),
    ],
    ids=["dual-stack", "IPv6-only"],
)
def test_ip_families_are_kept(helm: HelmAdapter, services: str, pods: str, address: str) -> None:
    """The ranges of Services and pods of both families, or of IPv6 alone, and the controller's address."""
    known = kubeadm_facts(
        kubeadm_pod("kube-apiserver", {"service-cluster-ip-range": services}, address=address),
        kubeadm_pod("kube-controller-manager", {"service-cluster-ip-range": services, "cluster-cidr": pods}),
    )
    derived = derive_values(known, (address,), {}, helm, charts_folder())
    assert derived.values["kube-apiserver"]["network"]["serviceSubnet"] == services
    assert derived.values["kubernetes"]["network"].items() >= {"podSubnet": pods, "serviceSubnet": services}.items()
    assert derived.values["kube-apiserver"]["endpoints"] == {"addresses": [address]}


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        (kubeadm_pod("kube-apiserver", {"service-cluster-ip-range": "10.3.0.0/24"}), "10.3.0.0/24"),
        (_without("kube-apiserver", "service-cluster-ip-range"), "10.0.0.0/24"),
    ],
    ids=["another one", "Kubernetes' own"],
)
def test_the_range_of_services_is_kube_apiservers(helm: HelmAdapter, api: StaticPod, expected: str) -> None:
    """A kube-controller-manager that wasn't told it gets the one in use, and not kubeadm's: it leaves that out of the
    range of pods. A kube-apiserver without the flag has a default of its own.
    """
    manager = _without("kube-controller-manager", "service-cluster-ip-range")
    derived = _derived(helm, kubeadm_facts(api, manager))
    for release in ("kube-apiserver", "kubernetes"):
        assert derived.values[release]["network"]["serviceSubnet"] == expected


def test_a_volume_whose_name_the_chart_uses_is_kept_under_another(helm: HelmAdapter) -> None:
    """`proxy` and `runtime` are volumes of the chart's own, `k8s-certs` one of kubeadm's that leads elsewhere here."""
    api = kubeadm_pod(
        "kube-apiserver",
        {},
        volume("proxy", "/srv/proxy"),
        volume("runtime", "/run/kms", "Directory", writable=True),
    )
    manager = kubeadm_pod(
        "kube-controller-manager", {}, volume("flexvolume-dir", "/usr/libexec/volumes", at="/volumes", writable=True)
    )
    derived = _derived(helm, kubeadm_facts(api, manager))
    assert (
        _mounts(helm, derived, "kube-apiserver", "kube-apiserver").items()
        >= {
            "/srv/proxy": ("/srv/proxy", True),
            "/run/kms": ("/run/kms", False),
        }.items()
    )
    assert _mounts(helm, derived, "kubernetes", "kube-controller-manager")["/volumes"] == (
        "/usr/libexec/volumes",
        False,
    )


def test_a_volume_that_the_operators_values_lack_is_refused(helm: HelmAdapter) -> None:
    """A list in the values replaces the derived one: what it lacks is named, before anything changes."""
    api = kubeadm_pod("kube-apiserver", {}, volume("audit-log", _AUDIT, writable=True))
    own: dict[str, Any] = {"kube-apiserver": {"extraVolumes": [], "extraVolumeMounts": []}}
    with pytest.raises(Blocked, match=rf"on controller-1 has volumes .*: {_AUDIT} at {_AUDIT} \(writable\)"):
        _derived(helm, kubeadm_facts(api), own)


def test_a_folder_that_the_chart_would_fill_otherwise_is_kept(helm: HelmAdapter) -> None:
    """The operator's CAs at /etc/ssl/certs stay there, and the chart doesn't mount the node's over them."""
    api = kubeadm_pod("kube-apiserver", {}, volume("ca-certs", "/opt/ca", at="/etc/ssl/certs"))
    values = _derived(helm, kubeadm_facts(api)).values["kube-apiserver"]
    assert "/etc/ssl/certs" not in values["caFolders"]
    (name,) = (each["name"] for each in values["extraVolumeMounts"] if each["mountPath"] == "/etc/ssl/certs")
    assert [each["hostPath"]["path"] for each in values["extraVolumes"] if each["name"] == name] == ["/opt/ca"]


def test_a_folder_above_the_certificates_that_is_another_one_is_refused(helm: HelmAdapter) -> None:
    """Kubespray's hardening guide mounts `admission-controls` at /etc/kubernetes: the certificates would be hidden, if
    the files that are needed of it aren't known.
    """
    odd = volume("admission", "/etc/kubernetes/admission-controls", at="/etc/kubernetes")
    with pytest.raises(Blocked, match="mounts /etc/kubernetes/admission-controls at /etc/kubernetes, which would hide"):
        _derived(helm, kubeadm_facts(kubeadm_pod("kube-apiserver", {}, odd)))
    _derived(helm, kubeadm_facts(kubeadm_pod("kube-apiserver", {}, volume("all", "/etc/kubernetes"))))


@pytest.mark.parametrize("component", ["kube-apiserver", "kube-controller-manager"])
def test_folders_of_public_certificates_are_those_that_kubeadm_found(component: str) -> None:
    """Where /usr is read-only, as with Fedora CoreOS and Flatcar, none can be made there."""
    release = {"kube-controller-manager": "kubernetes"}.get(component, component)
    found = [volume("ca-certs", "/etc/ssl/certs"), volume("k8s-certs", "/etc/kubernetes/pki")]
    pod = kubeadm_pod(component, spec={"volumes": [each for each, _ in found]})
    assert base_values(kubeadm_facts(pod), ("10.0.0.1",), {})[release]["caFolders"] == ["/etc/ssl/certs"]
    plain = base_values(kubeadm_facts(), ("10.0.0.1",), {})[release]
    assert "caFolders" not in plain, "they are the chart's own"


@pytest.mark.parametrize(
    ("version", "tag", "image"),
    [
        ("v1.36.3+vmware.1", "v1.36.3_vmware.1", "v1.36.3_vmware.1"),
        ("v1.36.3+vendor.1", "v1.36.3", "v1.36.3_vendor.1"),
        ("v1.36.3-eks-1-36-4", "v1.36.3-eks-1-36-4", "v1.36.3-eks-1-36-4"),
        ("1.36.3", "v1.36.3", "v1.36.3"),
    ],
)
def test_a_vendors_version_is_a_label_and_a_tag_that_kubernetes_accepts(
    helm: HelmAdapter, version: str, tag: str, image: str
) -> None:
    """A plus sign may be in neither: kubeadm, too, has an underscore in its place."""
    pods = [kubeadm_pod(name, container={"image": f"example.org/{name}:{tag}"}) for name in FLAGS]
    known = kubeadm_facts(*pods)
    derived = _derived(helm, replace(known, configuration={**known.configuration, "kubernetesVersion": version}))
    for release in ("kube-apiserver", "kubernetes"):
        spec = ReleaseSpec(release, "kube-system", charts_folder() / release, derived.values[release])
        manifest = helm.render(spec, offline=True)
        for item in filter(None, yaml.safe_load_all(manifest)):
            for name, value in (item["metadata"].get("labels") or {}).items():
                assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", value), f"{name}: {value}"
        for component in FLAGS.keys() & {name for name, (its, _) in RELEASE_AND_SECTION.items() if its == release}:
            assert f"example.org/{component}:{image}" in manifest


@pytest.mark.parametrize(
    ("image", "rendered"),
    [
        ("example.org/kube-scheduler:v1.35.9", "example.org/kube-scheduler:v1.36.3"),
        ("example.org/plugins/kube-scheduler:v0.36.2", "example.org/plugins/kube-scheduler:v0.36.2"),
        ("example.org/own/kube-scheduler:v1.4.0", "example.org/own/kube-scheduler:v1.4.0"),
        ("example.org/own/kube-scheduler:v2.36.3", "example.org/own/kube-scheduler:v2.36.3"),
    ],
)
def test_a_tag_that_numbers_other_builds_is_no_version_of_kubernetes(
    helm: HelmAdapter, image: str, rendered: str
) -> None:
    """A scheduler with plugins has numbers of its own: under its name, there is no image of kube-apiserver's version.
    Nor is it said to change.
    """
    known = kubeadm_facts(kubeadm_pod("kube-scheduler", container={"image": image}))
    derived = _derived(helm, known)
    spec = ReleaseSpec("kubernetes", "kube-system", charts_folder() / "kubernetes", derived.values["kubernetes"])
    (scheduler,) = pod_spec(helm.render(spec, offline=True), "kube-scheduler")["containers"]
    assert scheduler["image"] == rendered
    said = list(about_other_versions(known, KubernetesVersion(1, 36, 3)))
    assert bool(said) is (image != rendered)


@pytest.mark.parametrize("image", ["own/kube-scheduler", "registry.example.org:5000/kube-scheduler"])
def test_an_image_without_a_tag_is_the_latest_one(helm: HelmAdapter, image: str) -> None:
    """As for the kubelet: under its name, there may be no image of kube-apiserver's version. So it is of add-ons."""
    known = kubeadm_facts(kubeadm_pod("kube-scheduler", container={"image": image}))
    addon = {"spec": {"replicas": 2, "template": {"spec": {"containers": [{"image": image}]}}}}
    known = replace(known, dns_deployment=addon, proxy_daemonset=addon)
    derived = _derived(helm, known)
    spec = ReleaseSpec("kubernetes", "kube-system", charts_folder() / "kubernetes", derived.values["kubernetes"])
    manifest = helm.render(spec, offline=True)
    for workload in ("kube-scheduler", "kube-proxy", "coredns"):
        assert pod_spec(manifest, workload)["containers"][0]["image"] == f"{image}:latest"
    assert list(about_other_versions(known, KubernetesVersion(1, 36, 3))) == []


_WRITABLE = {
    "kube-apiserver": volume("dir0", "/etc/ssl/certs", writable=True),
    "kube-controller-manager": volume("certs", PKI, writable=True),
    "kube-scheduler": volume("conf", "/etc/kubernetes/scheduler.conf", "File", writable=True),
}


@pytest.mark.parametrize("component", _WRITABLE)
def test_what_the_chart_mounts_read_only_may_have_been_writable(helm: HelmAdapter, component: str) -> None:
    """Volumes without `readOnly`, as those of RKE2: certificates and kubeconfigs are read, and mounted once."""
    one, mount = _WRITABLE[component]
    pod = kubeadm_pod(component, spec={"volumes": [one]}, container={"volumeMounts": [mount]})
    release = "kube-apiserver" if component == "kube-apiserver" else "kubernetes"
    path = str(mount["mountPath"])
    assert _mounts(helm, _derived(helm, kubeadm_facts(pod)), release, component)[path] == (path, True)


@pytest.mark.parametrize(
    ("resources", "requests"),
    [
        ({"limits": {"memory": "256Mi"}}, {"cpu": "250m", "memory": "256Mi"}),
        ({"requests": {"cpu": "1"}, "limits": {"memory": "8000Mi", "cpu": 2}}, {"cpu": "1", "memory": "8000Mi"}),
        ({"requests": {"cpu": "1", "memory": "1Gi"}}, {"cpu": "1", "memory": "1Gi"}),
    ],
    ids=["less than the chart's own", "one of two", "no limits"],
)
def test_a_limit_stays_the_request_where_there_is_none(
    helm: HelmAdapter, resources: dict[str, Any], requests: dict[str, Any]
) -> None:
    """kubeadm's patches often set limits alone. The chart's own request may be more, which Kubernetes refuses."""
    derived = _derived(helm, kubeadm_facts(kubeadm_pod("kube-apiserver", container={"resources": resources})))
    spec = ReleaseSpec(
        "kube-apiserver", "kube-system", charts_folder() / "kube-apiserver", derived.values["kube-apiserver"]
    )
    pod = pod_spec(helm.render(spec, offline=True), "kube-apiserver")
    (found,) = (each["resources"] for each in pod["containers"] if each["name"] == "kube-apiserver")
    assert found == {**resources, "requests": requests}


_DELAY, _WATCHES = "shutdown-delay-duration", "shutdown-watch-termination-grace-period"


@pytest.mark.parametrize(
    ("flags", "grace", "drain", "ends"),
    [
        ({}, None, 15, 45),
        ({}, 10, 15, 45),
        ({}, 120, 15, 135),
        ({_DELAY: "0s"}, None, 15, 45),
        ({_DELAY: "5s"}, None, 15, 45),
        ({_DELAY: "70s"}, None, 70, 100),
        ({_DELAY: "1m10s"}, 30, 70, 100),
        ({_DELAY: "70s"}, 135, 70, 135),
        ({_DELAY: "69.2s"}, 120, 70, 120),
        ({_WATCHES: "1m"}, None, 15, 95),
        ({_DELAY: "70s", _WATCHES: "60s"}, 135, 70, 150),
    ],
)
def test_kube_apiserver_has_the_time_that_it_needs_to_end(
    helm: HelmAdapter, flags: dict[str, str], grace: int | None, drain: int, ends: int
) -> None:
    """A delay before its end becomes the drain, and 30 s are left after that: otherwise the kubelet would kill it while
    it serves, or while clients are moved.
    """
    spec = {"terminationGracePeriodSeconds": grace} if grace else {}
    derived = _derived(helm, kubeadm_facts(kubeadm_pod("kube-apiserver", flags, spec=spec)))
    chart = charts_folder() / "kube-apiserver"
    rendered = helm.render(
        ReleaseSpec("kube-apiserver", "kube-system", chart, derived.values["kube-apiserver"]), offline=True
    )
    found = pod_spec(rendered, "kube-apiserver")
    hooks = {each["name"]: each["lifecycle"]["preStop"] for each in found["containers"]}
    assert hooks["kube-apiserver"] == {"sleep": {"seconds": drain}}
    assert found["terminationGracePeriodSeconds"] == ends
    assert _DELAY not in rendered_flags(rendered, "kube-apiserver"), "proxy.sh moves clients at the end signal"
    said = [str(change) for change in derived.changes if change.name == _DELAY]
    assert said == ([f"no --{_DELAY} (was {flags[_DELAY]})"] if _DELAY in flags else [])
    usual = yaml.safe_load((chart / "values.yaml").read_text())["gracefulShutdown"]
    assert usual["terminationSeconds"] - usual["drainSeconds"] == 30, "as long as a pod has that says nothing"
    assert (usual["drainSeconds"], usual["watchSeconds"]) == (15, 10), "as adoption takes them to be"


def test_a_container_of_another_name_keeps_its_volumes(helm: HelmAdapter) -> None:
    """The kubelet doesn't care what kube-apiserver's container is called."""
    named = kubeadm_pod(
        "kube-apiserver",
        {"audit-log-path": f"{_AUDIT}/audit.log"},
        volume("audit-log", _AUDIT, writable=True),
        container={"name": "apiserver"},
    )
    derived = _derived(helm, kubeadm_facts(named))
    assert _mounts(helm, derived, "kube-apiserver", "kube-apiserver")[_AUDIT] == (_AUDIT, False)


def test_a_variable_of_the_charts_own_name_is_refused(helm: HelmAdapter) -> None:
    """The chart's kube-apiserver advertises $(HOST_IP), and a pod has each variable once."""
    api = kubeadm_pod("kube-apiserver", container={"env": [{"name": "HOST_IP", "value": "10.0.0.7"}]})
    with pytest.raises(
        Blocked, match="kube-apiserver's static pod on controller-1 has the environment variable HOST_IP"
    ) as caught:
        _derived(helm, kubeadm_facts(api))
    assert "another name" in caught.value.remedy
    _derived(helm, kubeadm_facts(kubeadm_pod("kube-scheduler", container={"env": [{"name": "HOST_IP", "value": "x"}]})))


def test_empty_flags_are_taken_over(helm: HelmAdapter) -> None:
    """kubeadm's external CA mode has one, and its file isn't there."""
    known = kubeadm_facts(kubeadm_pod("kube-controller-manager", {"cluster-signing-cert-file": ""}))
    assert _derived(helm, known).values["kubernetes"]["controllerManager"]["extraArgs"] == {
        "cluster-signing-cert-file": ""
    }


@pytest.mark.parametrize("path", ["/var/log/audit.log", "/etc/kubernetes/pki/audit.log", f"{_AUDIT}/audit.log"])
def test_an_audit_log_that_could_not_be_written_is_refused(helm: HelmAdapter, path: str) -> None:
    """In no volume, among the certificates, or in a volume that is read-only."""
    api = kubeadm_pod("kube-apiserver", {"audit-log-path": path}, volume("log", _AUDIT))
    with pytest.raises(Blocked, match=f"writes its audit log to {path}"):
        _derived(helm, kubeadm_facts(api))


@pytest.mark.parametrize(
    ("words", "other"),
    [
        ("volumes", kubeadm_pod("kube-scheduler", {}, volume("more", "/srv"))),
        ("variables", kubeadm_pod("kube-scheduler", container={"env": [{"name": "TZ", "value": "UTC"}]})),
        ("resources", kubeadm_pod("kube-scheduler", container={"resources": {"limits": {"memory": "1Gi"}}})),
        ("image", kubeadm_pod("kube-scheduler", container={"image": "registry.k8s.io/kube-scheduler:v1.35.4"})),
    ],
)
def test_controllers_that_differ_in_more_than_flags_are_refused(words: str, other: Any) -> None:
    """Otherwise the first controller's would be everybody's."""
    one = {name: kubeadm_pod(name) for name in FLAGS}
    with pytest.raises(Blocked, match=f"kube-scheduler on controller-2 differs from controller-1 in its {words}"):
        check_same_everywhere(facts(one, {**one, "kube-scheduler": other}))


def test_controllers_whose_kube_apiserver_has_other_times_to_end_are_refused() -> None:
    """But not kube-scheduler's: the chart decides for it."""
    one = {name: kubeadm_pod(name) for name in FLAGS}
    longer = {"terminationGracePeriodSeconds": 120}
    check_same_everywhere(facts(one, {**one, "kube-scheduler": kubeadm_pod("kube-scheduler", spec=longer)}))
    check_same_everywhere(
        facts(one, {**one, "kube-apiserver": kubeadm_pod("kube-apiserver", spec={"terminationGracePeriodSeconds": 30})})
    )
    with pytest.raises(Blocked, match="differs from controller-1 in its terminationGracePeriodSeconds"):
        check_same_everywhere(facts(one, {**one, "kube-apiserver": kubeadm_pod("kube-apiserver", spec=longer)}))


@pytest.mark.parametrize("component", ["kube-controller-manager", "kube-scheduler"])
def test_a_certificate_of_its_own_that_could_not_be_written_is_refused(helm: HelmAdapter, component: str) -> None:
    """It would end at its start. In memory, in a volume, and as a file that is there, it is no problem."""
    folder = "/var/run/kubernetes"
    pod = kubeadm_pod(component, {"cert-dir": folder})
    with pytest.raises(Blocked, match=f"{component} on controller-1 writes its own certificate to {folder}") as caught:
        _derived(helm, kubeadm_facts(pod))
    assert "Remove --cert-dir" in caught.value.remedy
    _derived(helm, kubeadm_facts(kubeadm_pod(component, {"cert-dir": folder}, volume("x", folder, writable=True))))
    _derived(helm, kubeadm_facts(kubeadm_pod(component, {"cert-dir": folder, "tls-cert-file": f"{PKI}/x.crt"})))
    _derived(helm, kubeadm_facts(kubeadm_pod(component, {"cert-dir": ""})))
    release, (section,) = RELEASE_AND_SECTION[component]
    _derived(helm, kubeadm_facts(pod), {release: {section: {"extraArgs": {"cert-dir": ""}}}})


@pytest.mark.parametrize("server", ["unix:///run/kine.sock", "$(ETCD)", "10.0.0.1:2379"])
def test_an_address_of_etcd_that_the_chart_could_not_have_is_refused(helm: HelmAdapter, server: str) -> None:
    """By the flag of the static pod, and not by an error of Helm's about a value that nobody wrote."""
    pod = kubeadm_pod("kube-apiserver", {"etcd-servers": f"https://10.0.0.2:2379,{server}"})
    with pytest.raises(Blocked, match="static pod on controller-1 has --etcd-servers with ") as caught:
        _derived(helm, kubeadm_facts(pod))
    assert f"with {server}: " in caught.value.message and "nothing was changed" in caught.value.message
