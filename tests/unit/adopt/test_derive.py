"""kubeadm's configuration as values of the real charts, rendered by the real Helm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.kube import FakeKube
from tests.unit.adopt.kubeadm_cluster import FLAGS, facts, static_pod
from upgrader.adapters.helm import HelmAdapter
from upgrader.adopt.added_flags import added_flags
from upgrader.adopt.derive import about_restored_servers, about_source_addresses, derive_values
from upgrader.adopt.facts import COMPONENTS, ControllerFacts
from upgrader.adopt.undo_differences import check_undo, released_in
from upgrader.adopt.values import missing_flags, rendered_flags
from upgrader.built_in_files import charts_folder
from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion

ONE = ("10.0.0.1",)
RELEASE = {
    "kube-apiserver": "kube-apiserver",
    "kube-controller-manager": "kubernetes",
    "kube-scheduler": "kubernetes",
}


@pytest.fixture
def helm(tmp_path: Path) -> Iterator[HelmAdapter]:
    """The real Helm, with no cluster: rendering needs none."""
    adapter = HelmAdapter(tmp_path / "kubeconfig")
    yield adapter
    adapter.close()


def test_every_flag_comes_out_the_same(helm: HelmAdapter) -> None:
    """What kubeadm's static pods were started with, the charts' pods are started with too."""
    known = facts()
    values = derive_values(known, ONE, {}, helm, charts_folder()).values
    for component in COMPONENTS:
        release = RELEASE[component]
        spec = ReleaseSpec(release, "kube-system", charts_folder() / release, values[release])
        rendered = rendered_flags(helm.render(spec, offline=True), component)
        assert missing_flags(known.component(component), rendered) == {}


def test_flag_that_the_chart_does_not_know_is_kept(helm: HelmAdapter) -> None:
    """Flags that an operator once added, also repeated ones, go to extraArgs."""
    pods = {name: static_pod(name) for name in COMPONENTS}
    pods["kube-apiserver"] = static_pod(
        "kube-apiserver", "--audit-log-maxage=30", "--tls-sni-cert-key=a,b", "--tls-sni-cert-key=c,d"
    )
    values = derive_values(facts(pods), ONE, {}, helm, charts_folder()).values
    args = values["kube-apiserver"]["extraArgs"]
    assert args["audit-log-maxage"] == "30"
    assert args["tls-sni-cert-key"] == ["a,b", "c,d"]


def test_own_values_win(helm: HelmAdapter) -> None:
    """What the cluster folder already has wins, also over kubeadm's values."""
    own = {"kube-apiserver": {"extraArgs": {"service-account-issuer": "https://other"}, "replicas": 1}}
    values = derive_values(facts(), ONE, own, helm, charts_folder()).values
    assert values["kube-apiserver"]["extraArgs"]["service-account-issuer"] == "https://other"
    assert values["kube-apiserver"]["endpoints"] == {"addresses": ["10.0.0.1"]}


@pytest.mark.parametrize("static", ["https://127.0.0.1:2379", "unix:///run/kine.sock"])
@pytest.mark.parametrize("own", ["https://10.0.0.9:2379", "https://127.0.0.1:2379"])
def test_a_value_of_the_operators_decides_on_its_flag(helm: HelmAdapter, static: str, own: str) -> None:
    """The static pod's flag, in `extraArgs`, would override it. The difference is told; and an undo of the adoption can
    render the chart, whatever the static pod has.
    """
    pod = static_pod("kube-apiserver", f"--etcd-servers={static}")
    known = facts({name: pod if name == "kube-apiserver" else static_pod(name) for name in FLAGS})
    chosen: dict[str, dict[str, Any]] = {
        "kube-apiserver": {"etcd": {"servers": [own]}},
        "kubernetes": {"network": {"podSubnet": "10.8.0.0/16"}},
    }
    derived = derive_values(known, ONE, chosen, helm, charts_folder())
    changes = {change.name: change.after for change in derived.changes}
    assert changes.get("etcd-servers", (static,)) == ((own,) if own != static else (static,))
    assert changes["cluster-cidr"] == ("10.8.0.0/16",)
    assert "etcd-servers" not in derived.values["kube-apiserver"].get("extraArgs", {})
    retired = [ControllerFacts(each.host, {}, each.active) for each in known.controllers]
    added_flags(FakeKube(), helm, retired, KubernetesVersion.parse(known.version), charts_folder())


def test_own_values_put_right_what_a_chart_cannot_have(helm: HelmAdapter) -> None:
    """CoreDNS was scaled to no replicas, which the chart's schema rejects: the operator's own number is what counts."""
    known = facts()
    assert known.dns_deployment is not None
    spec = {**known.dns_deployment["spec"], "replicas": 0}
    known = replace(known, dns_deployment={**known.dns_deployment, "spec": spec})
    derived = derive_values(known, ONE, {"kubernetes": {"coredns": {"replicas": 2}}}, helm, charts_folder())
    assert derived.values["kubernetes"]["coredns"]["replicas"] == 2


def test_volumes_and_environment_are_kept(helm: HelmAdapter) -> None:
    """An audit policy that is mounted into the static pod is mounted into the chart's pod."""
    mount = {"name": "audit", "mountPath": "/etc/audit", "readOnly": True}
    pod = static_pod(
        "kube-apiserver", volumeMounts=[mount], env=[{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]
    )
    manifest = pod.manifest.replace(
        b"spec:\n  containers:", b"spec:\n  volumes: [{name: audit, hostPath: {path: /etc/audit}}]\n  containers:"
    )
    pods = {name: static_pod(name) for name in COMPONENTS}
    pods["kube-apiserver"] = type(pod)(pod.component, manifest, pod.flags, pod.image)
    values = derive_values(facts(pods), ONE, {}, helm, charts_folder()).values
    assert values["kube-apiserver"]["extraVolumes"] == [{"name": "audit", "hostPath": {"path": "/etc/audit"}}]
    assert values["kube-apiserver"]["extraVolumeMounts"] == [mount]
    assert values["kube-apiserver"]["extraEnv"] == {"HTTPS_PROXY": "http://proxy:3128"}


def test_several_controllers_have_no_address_of_the_chart(helm: HelmAdapter) -> None:
    """With several controllers the API servers register themselves, so that a dead one doesn't stay listed."""
    pods = {name: static_pod(name) for name in COMPONENTS}
    values = derive_values(
        facts(pods, pods, pods), ("10.0.0.1", "10.0.0.2", "10.0.0.3"), {}, helm, charts_folder()
    ).values
    assert "endpoints" not in values["kube-apiserver"]
    assert values["kube-apiserver"]["replicas"] == values["kubernetes"]["scheduler"]["replicas"] == 3


def test_what_changes_all_the_same_is_said(helm: HelmAdapter) -> None:
    """The flags of the hand-over are named with their old values, before anything is done; nothing else changes."""
    changes = derive_values(facts(), ONE, {}, helm, charts_folder()).changes
    shown = {(change.component, change.name): str(change) for change in changes}
    assert shown["kube-scheduler", "bind-address"] == "--bind-address=0.0.0.0 (was 127.0.0.1)"
    assert shown["kube-apiserver", "endpoint-reconciler-type"] == "--endpoint-reconciler-type=none"
    assert ("kube-controller-manager", "cluster-name") not in shown
    assert ("kube-apiserver", "library-path") not in shown  # of the loader that starts it


def test_a_version_without_its_v(helm: HelmAdapter) -> None:
    """kubeadm accepts it."""
    plain = replace(facts(), configuration={"kubernetesVersion": "1.36.3"})
    assert derive_values(plain, ONE, {}, helm, charts_folder()) == derive_values(
        facts(), ONE, {}, helm, charts_folder()
    )


@pytest.mark.parametrize("version", ["stable-1", None])
def test_a_version_that_is_none(helm: HelmAdapter, version: str | None) -> None:
    """As of a ConfigMap that was written from kubeadm's input: the object and the field are named."""
    found = replace(facts(), configuration={"kubernetesVersion": version})
    with pytest.raises(Blocked, match=r"kubeadm-config: kubernetesVersion: .* nothing was changed") as caught:
        derive_values(found, ONE, {}, helm, charts_folder())
    assert "edit configmap kubeadm-config" in caught.value.remedy


def test_a_port_that_is_given_twice(helm: HelmAdapter) -> None:
    """The last one counts, as where a patch of kubeadm's adds to `args`."""
    pods = {name: static_pod(name) for name in COMPONENTS}
    pods["kube-apiserver"] = static_pod(
        "kube-apiserver", "--secure-port=7443", "--service-cluster-ip-range=10.97.0.0/16"
    )
    values = derive_values(facts(pods), ONE, {}, helm, charts_folder()).values["kube-apiserver"]
    assert values["port"] == 7443 and values["network"] == {"serviceSubnet": "10.97.0.0/16"}


def test_a_kubeconfig_that_is_given_twice(helm: HelmAdapter) -> None:
    """The last one is the chart's own value, and no flag beside it, which the chart would refuse."""
    pods = {name: static_pod(name) for name in COMPONENTS}
    pods["kube-scheduler"] = static_pod(
        "kube-scheduler", "--kubeconfig=/etc/kubernetes/first.conf", "--kubeconfig=/etc/kubernetes/other.conf"
    )
    scheduler = derive_values(facts(pods), ONE, {}, helm, charts_folder()).values["kubernetes"]["scheduler"]
    assert scheduler["kubeconfig"] == "/etc/kubernetes/other.conf" and "kubeconfig" not in scheduler.get(
        "extraArgs", {}
    )


def test_a_flag_that_goes_is_said(helm: HelmAdapter) -> None:
    """The charts' controller manager and scheduler have the usual ports, whatever the static pods had."""
    pods = {name: static_pod(name) for name in COMPONENTS}
    pods["kube-scheduler"] = static_pod("kube-scheduler", "--secure-port=10359")
    changes = derive_values(facts(pods), ONE, {}, helm, charts_folder()).changes
    assert "no --secure-port (was 10359)" in {str(each) for each in changes if each.component == "kube-scheduler"}


def test_a_ca_for_each_signer(helm: HelmAdapter) -> None:
    """kube-controller-manager starts with one CA for all signers, or with one for each: the chart's own flag for all
    would end it where the static pod has only those.
    """
    pods = {name: static_pod(name) for name in COMPONENTS}
    own = "--cluster-signing-kubelet-client-cert-file=/etc/kubernetes/pki/kubelets.crt"
    pods["kube-controller-manager"] = static_pod("kube-controller-manager", own)
    args = derive_values(facts(pods), ONE, {}, helm, charts_folder()).values["kubernetes"]["controllerManager"]
    assert args["extraArgs"].items() >= {"cluster-signing-cert-file": "", "cluster-signing-key-file": ""}.items()


def test_a_token_file_of_the_operator_stays(helm: HelmAdapter) -> None:
    """kube-apiserver reads one token file only: with the operator's own, HAProxy's check stays anonymous."""
    pods = {name: static_pod(name) for name in COMPONENTS}
    pods["kube-apiserver"] = static_pod("kube-apiserver", "--token-auth-file=/etc/kubernetes/pki/tokens.csv")
    values = derive_values(facts(pods), ONE, {}, helm, charts_folder()).values["kube-apiserver"]
    assert values["health"] == {"token": False}
    assert values["extraArgs"]["token-auth-file"] == "/etc/kubernetes/pki/tokens.csv"


def test_no_anonymous_requests_are_adopted(helm: HelmAdapter) -> None:
    """`anonymous-auth=false` is kept, and HAProxy's check gets a token."""
    pods = {name: static_pod(name) for name in COMPONENTS}
    pods["kube-apiserver"] = static_pod("kube-apiserver", "--anonymous-auth=false")
    derived = derive_values(facts(pods), ONE, {}, helm, charts_folder())
    assert derived.values["kube-apiserver"]["extraArgs"]["anonymous-auth"] == "false"
    assert "token-auth-file" in {change.name for change in derived.changes}


def test_an_empty_token_file_is_none(helm: HelmAdapter) -> None:
    """As CIS's benchmark is sometimes put into practice, with no anonymous requests: HAProxy's check gets a token, and
    an undo loses nothing.
    """
    pods = {name: static_pod(name) for name in COMPONENTS}
    pods["kube-apiserver"] = static_pod("kube-apiserver", "--anonymous-auth=false", "--token-auth-file=")
    known = facts(pods)
    values = derive_values(known, ONE, {}, helm, charts_folder()).values["kube-apiserver"]
    assert "token-auth-file" not in values["extraArgs"] and "health" not in values
    chart = charts_folder() / "kube-apiserver"
    released = released_in([helm.render(ReleaseSpec("kube-apiserver", "kube-system", chart, values), offline=True)])
    assert released["kube-apiserver"].flags["token-auth-file"] == ("/run/kube-apiserver/tokens.csv",)
    retired = [ControllerFacts(each.host, {}, {"kube-apiserver": pods["kube-apiserver"]}) for each in known.controllers]
    everything = {"kube-apiserver": released["kube-apiserver"].flags}
    check_undo(retired, released, everything)


def test_no_anonymous_requests_and_a_token_file_are_refused(helm: HelmAdapter) -> None:
    """With both, no check could ever succeed: adoption is refused before anything changes, and names the flags."""
    pods = {name: static_pod(name) for name in COMPONENTS}
    pods["kube-apiserver"] = static_pod("kube-apiserver", "--anonymous-auth=false", "--token-auth-file=/etc/x.csv")
    with pytest.raises(Blocked, match="has --token-auth-file and --anonymous-auth=false"):
        derive_values(facts(pods), ONE, {}, helm, charts_folder())


def test_lost_source_addresses_are_told() -> None:
    """Adoption says that audit events lose the clients' addresses, and names the audit log where there is one."""
    pods = {name: static_pod(name) for name in COMPONENTS}
    assert "sourceIPs" in about_source_addresses(facts(pods))
    pods["kube-apiserver"] = static_pod("kube-apiserver", "--audit-log-path=/var/log/audit.log")
    assert "--audit-log-path" in about_source_addresses(facts(pods))
    done = replace(facts(pods), controllers=(ControllerFacts(Host("controller-1", "10.0.0.1"), {}, pods),))
    assert about_source_addresses(done) == ""


def test_a_static_pod_that_could_not_be_restored_is_told_before() -> None:
    """Where HAProxy takes all that kube-apiserver sends to itself, adoption says what prevents that; not where HAProxy
    can pass it on.
    """
    everywhere = {"exposeOnAllInterfaces": True}
    assert about_restored_servers(facts(), everywhere) == ""
    known = replace(facts(), without_ipv6_loopback=("controller-1",))
    assert about_restored_servers(known, {"extraAddresses": ["127.0.0.1"]}) == ""
    assert "HAProxy (with `exposeOnAllInterfaces`)" in about_restored_servers(known, everywhere)
    told = about_restored_servers(known, {"extraAddresses": ["127.0.0.2"]})  # where that could be reached
    assert "HAProxy (at 127.0.0.2)" in told
    assert "controller-1" in told and "net.ipv6.conf.lo.disable_ipv6=0" in told


def test_no_version_is_written_down_twice(helm: HelmAdapter) -> None:
    """An image's tag that is a version of Kubernetes would keep it at that version; CoreDNS has its own tag."""
    values = derive_values(facts(), ONE, {}, helm, charts_folder()).values["kubernetes"]
    assert "tag" not in values["kubeProxy"]["image"] and "tag" not in values["scheduler"]["image"]
    assert values["coredns"]["image"]["tag"] == "v1.36.3"


def test_graceful_shutdown_of_the_operator_is_kept(helm: HelmAdapter) -> None:
    """Flags that the chart sets for the hand-over, but needn't, stay as the operator had them."""
    pods = {name: static_pod(name) for name in COMPONENTS}
    pods["kube-apiserver"] = static_pod("kube-apiserver", "--goaway-chance=0.001")
    values = derive_values(facts(pods), ONE, {}, helm, charts_folder()).values
    assert values["kube-apiserver"]["extraArgs"]["goaway-chance"] == "0.001"


def test_the_chart_listens_wherever_clients_use_the_api(helm: HelmAdapter) -> None:
    """A virtual IP that kubeadm's kube-apiserver served is in the chart's values, and HAProxy binds to it."""
    known = replace(facts(), client_addresses=("10.0.0.9",))
    values = derive_values(known, ONE, {}, helm, charts_folder()).values["kube-apiserver"]
    spec = ReleaseSpec("kube-apiserver", "kube-system", charts_folder() / "kube-apiserver", values)
    rendered = helm.render(spec, offline=True)
    assert 'bind "10.0.0.9:6443" transparent' in rendered


def test_an_address_that_would_be_lost_stops_the_adoption(helm: HelmAdapter) -> None:
    """The operator's own list wins, unless it lacks an address that clients use: then it is named."""
    known = replace(facts(), client_addresses=("10.0.0.9", "127.0.0.1"))
    own = {"kube-apiserver": {"extraAddresses": ["127.0.0.1"]}}
    with pytest.raises(Blocked, match=r"clients reach the API at 10\.0\.0\.9; after adoption, .* no longer"):
        derive_values(known, ONE, own, helm, charts_folder())
    everywhere = {"kube-apiserver": {"extraAddresses": [], "exposeOnAllInterfaces": True}}
    derive_values(known, ONE, everywhere, helm, charts_folder())
