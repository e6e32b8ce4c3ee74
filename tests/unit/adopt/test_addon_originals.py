"""kubeadm's own objects: kept where only those can write who may do anything, and restored only as what they are."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import yaml

from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from upgrader.adopt.addon_originals import FILE, KEY, STORE, Originals, SaveOriginalsStep
from upgrader.adopt.addon_originals_check import taken_over
from upgrader.adopt.release_step import UninstallStep
from upgrader.adopt.running_addons import addons_in
from upgrader.errors import StepFailed
from upgrader.model.cluster import Host
from upgrader.model.version import KubernetesVersion
from upgrader.ports import CommandResult, Kind

HOSTS = (Host("controller-1", "10.0.0.1"), Host("controller-2", "10.0.0.2"))
V136 = KubernetesVersion(1, 36, 3)
SECRETS, CONFIG_MAPS = Kind("v1", "secrets"), Kind("v1", "configmaps")
DAEMONSETS, DEPLOYMENTS = Kind("apps/v1", "daemonsets"), Kind("apps/v1", "deployments")
BINDINGS = Kind("rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False)
SYSTEM = "kube-system"
Object = dict[str, Any]


def quiet(text: str) -> None:
    """Take no notes."""


def workload(kind: str, name: str, image: str, **spec: Any) -> Object:
    """kube-proxy's DaemonSet or CoreDNS' Deployment."""
    container = {"name": name, "image": image, **({"command": ["/usr/local/bin/kube-proxy"]} if kind[1] == "a" else {})}
    pod = {"spec": {"containers": [container], **spec}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": {"template": pod}}


def daemonset(image: str = "registry.k8s.io/kube-proxy:v1.36.3", **spec: Any) -> Object:
    """kubeadm's kube-proxy."""
    volumes = [{"name": "modules", "hostPath": {"path": "/lib/modules"}}]
    return workload("DaemonSet", "kube-proxy", image, **{"volumes": volumes, "hostNetwork": True, **spec})


def binding(name: str = "kubeadm:node-proxier", role: str = "system:node-proxier", user: str = "kube-proxy") -> Object:
    """A ClusterRoleBinding, by default kubeadm's for kube-proxy."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": user, "namespace": SYSTEM}],
    }


class Place:
    """A cluster of two controllers, and kubeadm's objects in it."""

    def __init__(self) -> None:
        self.kube, self.hosts, self.helm = FakeKube(), FakeHosts(), FakeHelm()
        self.hosts.commands["install"] = CommandResult(0, "", "")
        self.hosts.commands["rm"] = self._removed
        self.kube.put(DAEMONSETS, daemonset(), SYSTEM)
        self.kube.put(DEPLOYMENTS, workload("Deployment", "coredns", "registry.k8s.io/coredns:v1"), SYSTEM)
        self.kube.put(BINDINGS, binding())

    @property
    def originals(self) -> Originals:
        """What is under test."""
        return Originals(self.kube, self.hosts, HOSTS)

    def config_map(self, *manifests: Any) -> None:
        """Objects in a ConfigMap, which the Secret's name is given to."""
        text = json.dumps(manifests)
        self.kube.put(CONFIG_MAPS, {"metadata": {"name": STORE}, "data": {KEY: text}}, SYSTEM)

    def secret(self, text: str) -> None:
        """Keep objects in the Secret only."""
        data = {KEY: base64.b64encode(text.encode()).decode()}
        self.kube.put(SECRETS, {"metadata": {"name": STORE}, "data": data}, SYSTEM)

    def _removed(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        self.hosts.files.pop((host.name, command[-1]), None)
        return CommandResult(0, "", "")


@pytest.fixture
def place() -> Place:
    """Before its adoption."""
    return Place()


def test_originals_come_back_as_they_were(place: Place) -> None:
    """kubeadm's objects are kept before they are taken over, and restored without a trace of the chart."""
    notes: list[str] = []
    SaveOriginalsStep(place.originals).apply(notes.append)
    assert "SHA-256" in notes[0]
    taken = daemonset(priorityClassName="chart")
    taken["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    place.kube.put(DAEMONSETS, taken, SYSTEM)
    place.kube.delete(BINDINGS, "kubeadm:node-proxier")

    place.originals.restore(place.originals.read(), KubernetesVersion(1, 37, 1), quiet)

    found = place.kube.get(DAEMONSETS, "kube-proxy", SYSTEM)
    assert found is not None
    assert found["spec"] == daemonset("registry.k8s.io/kube-proxy:v1.37.1")["spec"]
    assert "annotations" not in found["metadata"]
    assert place.kube.get(BINDINGS, "kubeadm:node-proxier") is not None


def test_originals_are_kept_where_only_root_and_administrators_write(place: Place) -> None:
    """In a Secret, which says what it is for, and in root's files, never in a ConfigMap; the undo removes them all."""
    SaveOriginalsStep(place.originals).apply(quiet)
    assert place.kube.get(CONFIG_MAPS, STORE, SYSTEM) is None
    secret = place.kube.get(SECRETS, STORE, SYSTEM)
    assert secret is not None
    assert "upgrader adopt --undo" in secret["metadata"]["annotations"]["kubernetes.io/description"]
    assert {place.hosts.modes[host.name, FILE] for host in HOSTS} == {0o600}
    place.originals.forget()
    assert not place.originals.kept()


def test_originals_are_kept_once(place: Place) -> None:
    """A second adoption sees the chart's objects, and must not keep those as if they were kubeadm's."""
    SaveOriginalsStep(place.originals).apply(quiet)
    place.kube.put(DAEMONSETS, daemonset("chart"), SYSTEM)
    SaveOriginalsStep(place.originals).apply(quiet)
    assert "chart" not in json.dumps(place.originals.read())


FORGED = {
    "another name": binding("evil", "cluster-admin"),
    "another kind": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kube-proxy"}},
    "another API": {**binding(), "apiVersion": "example.com/v1"},
    "another namespace": {**daemonset(), "metadata": {"name": "kube-proxy", "namespace": "payments"}},
    "no object": "evil",
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_only_what_was_taken_over_is_restored(place: Place, forged: Any) -> None:
    """A planted ClusterRoleBinding is refused with its name, and nothing is applied."""
    place.secret(json.dumps([daemonset(), forged]))
    with pytest.raises(StepFailed, match="none of it is restored") as refused:
        place.originals.read()
    assert "kubeadm init phase addon all" in refused.value.remedy


def test_an_object_twice_is_refused(place: Place) -> None:
    """The second of two would win."""
    place.secret(json.dumps([daemonset(), daemonset()]))
    with pytest.raises(StepFailed, match="twice"):
        place.originals.read()


def test_copies_that_differ_are_refused(place: Place) -> None:
    """Where a copy was changed, it is not known which one is right: the places and their sums are named."""
    SaveOriginalsStep(place.originals).apply(quiet)
    place.hosts.files["controller-2", FILE] = json.dumps([binding(role="cluster-admin")]).encode()
    with pytest.raises(StepFailed, match=r"controller-2:/etc/kubernetes/upgrader/originals\.json \(SHA-256"):
        place.originals.read()


def test_one_copy_is_enough(place: Place) -> None:
    """A deleted Secret, or a replaced controller, doesn't lose them."""
    SaveOriginalsStep(place.originals).apply(quiet)
    before = place.originals.read()
    place.kube.delete(SECRETS, STORE, SYSTEM)
    del place.hosts.files["controller-1", FILE]
    assert place.originals.read() == before


def test_a_planted_config_map_changes_nothing(place: Place) -> None:
    """Who writes ConfigMaps can't make adoption believe that originals are kept, nor choose what is restored."""
    place.config_map(binding(role="cluster-admin"))
    assert not place.originals.kept()
    with pytest.raises(StepFailed, match="does not exist") as refused:
        place.originals.read()
    assert "create secret generic upgrader-adopted" in refused.value.remedy
    SaveOriginalsStep(place.originals).apply(quiet)
    assert place.kube.get(SECRETS, STORE, SYSTEM) is not None
    assert "cluster-admin" not in json.dumps(place.originals.read())


def test_the_charts_objects_are_not_kept_as_originals(place: Place) -> None:
    """A cluster whose originals are gone is not adopted again as if the chart's objects were kubeadm's."""
    taken = daemonset()
    taken["metadata"]["annotations"] = {"meta.helm.sh/release-name": "kubernetes"}
    place.kube.put(DAEMONSETS, taken, SYSTEM)
    with pytest.raises(StepFailed, match="DaemonSet kube-proxy already belongs to Helm release") as refused:
        SaveOriginalsStep(place.originals).apply(quiet)
    assert "kubeadm init phase addon all" in refused.value.remedy
    assert not place.originals.kept()


def test_what_kubeadm_prints_can_be_kept(place: Place) -> None:
    """The remedy works: YAML documents in the Secret are read as the JSON list is."""
    place.secret(yaml.safe_dump_all([daemonset(), binding()]))
    assert [manifest["kind"] for manifest in place.originals.read()] == ["DaemonSet", "ClusterRoleBinding"]


@pytest.mark.parametrize("broken", [lambda place: place.secret("{"), lambda place: None])
def test_nothing_is_uninstalled_that_could_not_be_restored(place: Place, broken: Callable[[Place], None]) -> None:
    """Without readable originals kube-proxy's release stays, and the error says how to get them."""
    broken(place)
    place.helm.install("kubernetes", "")
    with pytest.raises(StepFailed) as refused:
        UninstallStep("kubernetes", place.helm, place.originals, V136).apply(quiet)
    assert refused.value.remedy
    assert place.helm.history("kubernetes", SYSTEM)[-1].status == "deployed"


def test_an_undo_that_is_run_again_goes_on(place: Place) -> None:
    """After the release is gone and the originals were restored and removed, the step has nothing left to do."""
    SaveOriginalsStep(place.originals).apply(quiet)
    place.helm.install("kubernetes", "")
    step = UninstallStep("kubernetes", place.helm, place.originals, V136)
    step.apply(quiet)
    assert not place.originals.kept()
    step.apply(quiet)


def config_map(name: str, **data: str) -> Object:
    """What an add-on is configured with."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


COREFILE = ".:53 {\n    forward . /etc/resolv.conf\n}\n"
PROXY_CONFIG = "kind: KubeProxyConfiguration\nmode: {mode}\nclusterCIDR: ''\nbindAddress: 0.0.0.0\n"


def adopted_with(place: Place, corefile: str, mode: str) -> UninstallStep:
    """The step that gives the add-ons back, where the release has got these since."""
    for each in (
        config_map("coredns", Corefile=COREFILE),
        config_map("kube-proxy", **{"config.conf": PROXY_CONFIG.format(mode="iptables"), "kubeconfig.conf": "a: b\n"}),
    ):
        place.kube.put(CONFIG_MAPS, each, SYSTEM)
    SaveOriginalsStep(place.originals).apply(quiet)
    release = [
        config_map("coredns", Corefile=corefile),
        # As a chart writes it: sorted, and without what is empty.
        config_map(
            "kube-proxy",
            **{
                "config.conf": f"bindAddress: 0.0.0.0\nkind: KubeProxyConfiguration\nmode: {mode}\n",
                "kubeconfig.conf": "{a: b}",
            },
        ),
        workload("Deployment", "coredns", "mirror.example/coredns:v2"),
        daemonset("mirror.example/kube-proxy@sha256:1"),
    ]
    manifest = yaml.safe_dump_all(release)
    place.helm.install("kubernetes", manifest)
    return UninstallStep("kubernetes", place.helm, place.originals, V136, addons_in([manifest]))


def data_of(place: Place, name: str) -> dict[str, str]:
    """A ConfigMap's texts."""
    found = place.kube.get(CONFIG_MAPS, name, SYSTEM)
    assert found is not None
    return dict(found["data"])


def test_what_the_add_ons_have_got_since_the_adoption_stays(place: Place) -> None:
    """kubeadm's Corefile knows no zone that came later, and its CoreDNS is the one of then: names that pods use would
    end with the undo. The note says what isn't as kubeadm made it.
    """
    corefile = "corp.example:53 {\n    forward . 10.9.9.9\n}\n" + COREFILE
    notes: list[str] = []
    adopted_with(place, corefile, "nftables").apply(notes.append)
    assert data_of(place, "coredns") == {"Corefile": corefile}
    assert "mode: nftables" in data_of(place, "kube-proxy")["config.conf"]
    assert data_of(place, "kube-proxy")["kubeconfig.conf"] == "a: b\n", "it says the same"
    dns, proxy = place.kube.get(DEPLOYMENTS, "coredns", SYSTEM), place.kube.get(DAEMONSETS, "kube-proxy", SYSTEM)
    assert dns is not None and proxy is not None
    images = [each["spec"]["template"]["spec"]["containers"][0]["image"] for each in (dns, proxy)]
    assert images == ["mirror.example/coredns:v2", "mirror.example/kube-proxy@sha256:1"]
    said = "\n".join(notes)
    assert "ConfigMap coredns keeps the release's Corefile" in said
    assert "ConfigMap kube-proxy keeps the release's config.conf" in said


def test_a_configuration_that_says_the_same_is_restored_as_kubeadm_wrote_it(place: Place) -> None:
    """However the chart writes it."""
    notes: list[str] = []
    adopted_with(place, COREFILE.strip(), "iptables").apply(notes.append)
    assert data_of(place, "coredns") == {"Corefile": COREFILE}
    assert data_of(place, "kube-proxy")["config.conf"] == PROXY_CONFIG.format(mode="iptables")
    assert "keeps" not in "\n".join(notes)


@pytest.mark.parametrize(("was", "now"), [("null", "0"), ("true", "false"), ("null", "false")])
def test_a_zero_is_not_as_nothing(place: Place, was: str, now: str) -> None:
    """kube-proxy's `maxPerCore: 0` leaves the kernel's limit alone, which it otherwise sets; an absent
    `localhostNodePorts` is true.
    """
    place.kube.put(CONFIG_MAPS, config_map("kube-proxy", **{"config.conf": f"conntrack: {{x: {was}}}\n"}), SYSTEM)
    SaveOriginalsStep(place.originals).apply(quiet)
    manifest = yaml.safe_dump(config_map("kube-proxy", **{"config.conf": f"conntrack: {{x: {now}}}\n"}))
    place.helm.install("kubernetes", manifest)
    UninstallStep("kubernetes", place.helm, place.originals, V136, addons_in([manifest])).apply(quiet)
    assert data_of(place, "kube-proxy")["config.conf"] == f"conntrack: {{x: {now}}}\n"


def test_as_many_pods_of_coredns_as_now_stay(place: Place) -> None:
    """An undo that returned to the two of then would take the DNS of a cluster that has grown since."""
    dns = dict(place.kube.get(DEPLOYMENTS, "coredns", SYSTEM) or {})
    place.kube.put(DEPLOYMENTS, {**dns, "spec": {**dns["spec"], "replicas": 2}}, SYSTEM)
    SaveOriginalsStep(place.originals).apply(quiet)
    place.kube.put(DEPLOYMENTS, {**dns, "spec": {**dns["spec"], "replicas": 12}}, SYSTEM)
    place.helm.install("kubernetes", "")
    UninstallStep("kubernetes", place.helm, place.originals, V136).apply(quiet)
    found = place.kube.get(DEPLOYMENTS, "coredns", SYSTEM)
    assert found is not None and found["spec"]["replicas"] == 12


@pytest.mark.parametrize(
    ("proxy", "dns", "kept", "names"),
    [
        (True, True, "keep kubeadm's kube-proxy and CoreDNS objects", "kube-proxy and CoreDNS"),
        (True, False, "keep kubeadm's kube-proxy objects", "kube-proxy"),
        (False, True, "keep kubeadm's CoreDNS objects", "CoreDNS"),
        (False, False, "kubeadm's add-ons are not changed", "nothing"),
    ],
)
def test_an_add_on_that_is_left_alone_is_not_said_to_be_taken_over(
    place: Place, *, proxy: bool, dns: bool, kept: str, names: str
) -> None:
    """With Kubespray's own CoreDNS, the plan and the notes name kube-proxy alone."""
    step = SaveOriginalsStep(place.originals, taken_over(proxy=proxy, dns=dns))
    assert kept in step.summary() and ("CoreDNS" in step.summary()) is dns
    notes: list[str] = []
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "coredns"}}
    manifests = (*([daemonset()] if proxy else []), *([account] if dns else []))
    place.originals.restore(manifests, KubernetesVersion(1, 36, 3), notes.append)
    assert notes == [f"restored as kubeadm made it: {names}"]
