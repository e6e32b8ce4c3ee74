"""The charts' pods must reach the API where kube-controller-manager's and kube-scheduler's kubeconfigs lead."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest
import yaml

from testkit.fakes.hosts import FakeHosts
from tests.unit.adopt.kubeadm_cluster import certificate
from tests.unit.adopt.kubeadm_pods import controller_with_modes, kubeadm_facts, kubeadm_pod, volume
from upgrader.adopt.facts import StaticPod
from upgrader.adopt.leaders_api import OwnServer, aliases_of, leaders_servers
from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult

_CONF = "/etc/kubernetes/scheduler.conf"
_FOLDER = "/etc/kubernetes/kubeconfigs"


def _hosts(server: str, *, in_file: bool = False, in_dns: bool = False) -> FakeHosts:
    """A controller whose kube-scheduler has that server, and what knows the server's name."""

    def getent(_: Host, command: Sequence[str], __: bytes) -> CommandResult:
        found = {"files": in_file, "dns": in_dns}[command[2]]
        return CommandResult(0 if found else 2, "10.0.0.9 STREAM name\n" if found else "", "")

    hosts = controller_with_modes({_FOLDER: "41ed 0 0"})
    hosts.commands["getent"] = getent
    config = {"clusters": [{"name": "x", "cluster": {"server": server}}]}
    hosts.files["controller-1", _CONF] = yaml.safe_dump(config).encode()
    return hosts


def _found(
    hosts: FakeHosts, *changed: StaticPod, aliases: Collection[str] = (), names: Sequence[str] = ("10.0.0.1",)
) -> tuple[OwnServer, ...]:
    """Of a cluster of one controller with these static pods, whose kube-apiserver's certificate has these names."""
    hosts.files["controller-1", "/etc/kubernetes/pki/apiserver.crt"] = certificate(names)
    return leaders_servers(hosts, kubeadm_facts(*changed).controllers, ["10.0.0.1"], aliases)


@pytest.mark.parametrize("server", ["https://127.0.0.1:6443", "https://localhost:6443", "https://[::1]:6443"])
def test_the_controllers_own_loopback_becomes_the_nodes_own_address(server: str) -> None:
    """As Kubespray had it on its controllers: kube-apiserver answers at both, and its certificate has the other."""
    assert _found(_hosts(server)) == (
        OwnServer(Host("controller-1", "10.0.0.1"), _CONF, server, "https://10.0.0.1:6443"),
    )


@pytest.mark.parametrize(
    ("server", "names", "why"),
    [
        ("https://127.0.0.1:8443", ["10.0.0.1"], "kube-apiserver listens at port 6443, so another program must answer"),
        ("https://127.0.0.1:6443", ["127.0.0.1", "10.0.0.9"], "10.0.0.1, isn't in kube-apiserver's certificate"),
    ],
)
def test_a_loopback_address_that_can_not_be_replaced_is_refused(server: str, names: list[str], why: str) -> None:
    """A load balancer of the controller's own, or a certificate that pods couldn't trust: file and reason are named."""
    with pytest.raises(
        Blocked, match=rf"controller-1: /etc/kubernetes/scheduler\.conf has the server .*{why}"
    ) as caught:
        _found(_hosts(server), names=names)
    assert "nothing was changed" in caught.value.message
    assert f"sed -i 's#{server}#https://10.0.0.1:6443#' {_CONF}" in caught.value.remedy


def test_the_kubeconfig_of_the_schedulers_configuration_file_is_read() -> None:
    """kube-scheduler takes its kubeconfig from the file of `--config`, as with Kubespray, and not from its flag. Its
    path on the controller is named: that is where it can be changed.
    """
    hosts = _hosts("https://10.0.0.1:6443")
    hosts.files["controller-1", "/srv/scheduler.yaml"] = b"clientConnection: {kubeconfig: /etc/kubernetes/own.conf}"
    hosts.files["controller-1", "/srv/own.conf"] = b"clusters: [{cluster: {server: 'https://127.0.0.1:6443'}}]"
    pod = kubeadm_pod(
        "kube-scheduler",
        {"config": "/etc/kubernetes/scheduler.yaml"},
        volume("config", "/srv/scheduler.yaml", "File", at="/etc/kubernetes/scheduler.yaml"),
        volume("own", "/srv/own.conf", "File", at="/etc/kubernetes/own.conf"),
    )
    (found,) = _found(hosts, pod)
    assert (found.path, found.before) == ("/srv/own.conf", "https://127.0.0.1:6443")


@pytest.mark.parametrize(
    ("flags", "by"),
    [
        ({"kubeconfig": _FOLDER}, "kube-scheduler's flag --kubeconfig"),
        ({"config": _FOLDER}, "kube-scheduler's flag --config"),
        ({"config": "/etc/kubernetes/s.yaml"}, r"/etc/kubernetes/s.yaml \(clientConnection.kubeconfig\)"),
    ],
)
def test_a_folder_where_a_kubeconfig_is_expected(flags: dict[str, str], by: str) -> None:
    """What names it is named, in a file too, with what to do."""
    hosts = _hosts("https://10.0.0.1:6443")
    hosts.files["controller-1", "/etc/kubernetes/s.yaml"] = f"clientConnection: {{kubeconfig: {_FOLDER}}}".encode()
    pod = kubeadm_pod("kube-scheduler", flags, volume("all", "/etc/kubernetes"))
    with pytest.raises(Blocked, match=f"controller-1: {by} names {_FOLDER}, which is a folder, not a file") as caught:
        _found(hosts, pod)
    assert caught.value.remedy


def _extender(hosts: FakeHosts, text: str, *without: str) -> tuple[OwnServer, ...]:
    """Of a kube-scheduler whose configuration file on the controller has this text, `without` some flags."""
    hosts.files["controller-1", "/srv/scheduler.yaml"] = text.encode()
    mounted = volume("config", "/srv/scheduler.yaml", "File", at="/etc/kubernetes/scheduler.yaml")
    pod = kubeadm_pod("kube-scheduler", {"config": "/etc/kubernetes/scheduler.yaml"}, mounted)
    flags = {name: values for name, values in pod.flags.items() if name not in without}
    return _found(hosts, replace(pod, flags=flags))


@pytest.mark.parametrize("url", ["http://127.0.0.1:32766/x", "https://localhost:9001", "http://[::1]:8888/scheduler"])
def test_an_extender_at_the_controllers_loopback_address_is_refused(url: str) -> None:
    """GPU sharing has kube-scheduler ask a NodePort at 127.0.0.1. The chart's pod has nothing there, and every pod that
    the extender isn't `ignorable` for would stay pending.
    """
    hosts = _hosts("https://10.0.0.1:6443")
    found = rf"controller-1: /srv/scheduler\.yaml has the extender {re.escape(url)}, which the chart's kube"
    with pytest.raises(Blocked, match=found) as caught:
        _extender(hosts, yaml.safe_dump({"extenders": [{"urlPrefix": "http://10.0.0.9:1/x"}, {"urlPrefix": url}]}))
    assert "`urlPrefix`" in caught.value.remedy


@pytest.mark.parametrize(
    ("election", "words"),
    [
        ({"leaderElect": False}, "`leaderElection.leaderElect: false`"),
        ({"leaderElect": True, "resourceName": "mine"}, "`leaderElection.resourceName: mine`"),
        ({"resourceNamespace": "mine"}, "`leaderElection.resourceNamespace: mine`"),
        ({"leaderElect": True, "resourceName": "kube-scheduler", "resourceNamespace": "kube-system"}, ""),
        ({"resourceName": ""}, ""),
    ],
)
def test_the_election_in_kube_schedulers_configuration_is_kubernetes_own(election: dict[str, Any], words: str) -> None:
    """As the flags, which its file may have instead: the static pod and the chart's would act at once."""
    text, hosts = yaml.safe_dump({"leaderElection": election}), _hosts("https://10.0.0.1:6443")
    if not words:
        assert _extender(hosts, text, "leader-elect") == ()
        return
    with pytest.raises(Blocked, match=re.escape(f"controller-1: /srv/scheduler.yaml has {words}")) as caught:
        _extender(hosts, text, "leader-elect")
    assert "nothing was changed" in caught.value.message and caught.value.remedy


@pytest.mark.parametrize("text", ["- a", "clientConnection: ["])
def test_a_configuration_of_kube_schedulers_that_is_none(text: str) -> None:
    """It is named, before anything is rendered."""
    with pytest.raises(Blocked, match=r"controller-1: /srv/scheduler\.yaml can't be read: it is not"):
        _extender(_hosts("https://10.0.0.1:6443"), text)


def test_kube_schedulers_flag_wins_over_its_configuration() -> None:
    """kubeadm always writes --leader-elect=true."""
    assert _extender(_hosts("https://10.0.0.1:6443"), "leaderElection: {leaderElect: false}") == ()


def test_an_extender_whose_name_only_the_controller_knows_is_refused() -> None:
    """As the API's."""
    hosts = _hosts("https://10.0.0.1:6443", in_file=True)
    with pytest.raises(Blocked, match=r"scheduler\.yaml uses https://gas\.internal:9001, and gas\.internal is only in"):
        _extender(hosts, "extenders: [{urlPrefix: 'https://gas.internal:9001'}]")
    assert _extender(_hosts("https://10.0.0.1:6443", in_dns=True), "extenders: [{urlPrefix: 'https://gas:9001'}]") == ()


def test_a_name_that_only_the_controller_knows_is_refused_unless_it_is_told() -> None:
    """The pods read no /etc/hosts of the node; the chart's hostAliases tell them."""
    hosts = _hosts("https://lb-apiserver.kubernetes.local:6443", in_file=True)
    with pytest.raises(Blocked, match="is only in /etc/hosts") as caught:
        _found(hosts)
    assert "controlPlane.hostAliases" in caught.value.remedy
    values = {"controlPlane": {"hostAliases": [{"ip": "10.0.0.9", "hostnames": ["lb-apiserver.kubernetes.local"]}]}}
    assert _found(hosts, aliases=aliases_of(values)) == ()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_no_alias_is_proposed_for_a_loopback_address(address: str) -> None:
    """In a pod, it is the pod's own: an alias with it is as good as none, whether proposed or set already."""
    hosts = _hosts("https://api.internal:6443")
    answers = {"files": CommandResult(0, f"{address} STREAM api.internal\n", ""), "dns": CommandResult(2, "", "")}
    hosts.commands["getent"] = lambda _, command, __: answers[command[2]]
    values = {"controlPlane": {"hostAliases": [{"ip": address, "hostnames": ["api.internal"]}]}}
    for aliases in ((), aliases_of(values)):
        with pytest.raises(Blocked, match=r"and api\.internal is only in /etc/hosts") as caught:
            _found(hosts, aliases=aliases)
        assert caught.value.remedy.startswith("api.internal has a loopback address on controller-1. In a pod, that")
        assert "So use an address there, on every controller: the node's own address" in caught.value.remedy


def test_no_alias_is_proposed_for_a_name_that_leads_each_controller_to_itself() -> None:
    """As sealos writes it into each /etc/hosts: with one address for all pods, these depend on one controller."""
    url = "https://apiserver.cluster.local:6443"
    hosts = _hosts(url)
    hosts.commands["getent"] = lambda host, command, _: (
        CommandResult(0, f"{host.address} STREAM {command[-1]}\n", "")
        if command[2] == "files"
        else CommandResult(2, "", "")
    )
    (first,) = kubeadm_facts().controllers
    second = replace(first, host=Host("controller-2", "10.0.0.2"))
    with pytest.raises(Blocked, match=r"controller-1: .* is only in /etc/hosts") as caught:
        leaders_servers(hosts, [first, second], ["10.0.0.1", "10.0.0.2"], ())
    assert caught.value.remedy.startswith("apiserver.cluster.local resolves to another address on controller-2, but")
    assert "So use an address there, on every controller: the node's own address" in caught.value.remedy


@pytest.mark.parametrize(
    ("server", "in_dns"), [("https://10.0.0.1:6443", False), ("https://[fd00::1]:6443", False), ("https://api:1", True)]
)
def test_what_pods_can_reach(server: str, in_dns: bool) -> None:
    """The controller's own address, as kubeadm writes it, and a name in DNS."""
    assert _found(_hosts(server, in_file=in_dns, in_dns=in_dns)) == ()


@pytest.mark.parametrize("component", ["kube-controller-manager", "kube-scheduler"])
@pytest.mark.parametrize("url", ["https://127.0.0.1:6443", "http://localhost:8080", "127.0.0.1:8080", "https://[::1]"])
def test_a_flag_that_leads_to_the_controllers_loopback_address_is_refused(component: str, url: str) -> None:
    """`--master` overrides the kubeconfig's server, whichever that is: the chart's pod would ask itself."""
    pod = kubeadm_pod(component, {"master": url})
    with pytest.raises(Blocked, match=re.escape(f"controller-1: {component}'s flag --master is {url}")) as caught:
        _found(_hosts("https://10.0.0.1:6443"), pod)
    assert "Remove it from the static pod" in caught.value.remedy


def test_a_flag_that_leads_elsewhere_is_kept() -> None:
    """The node's own address and a name of the DNS do, but not a name that only /etc/hosts has, until the pods know
    it.
    """
    pod = kubeadm_pod("kube-scheduler", {"master": "https://api.lan:6443"})
    assert _found(_hosts("https://10.0.0.1:6443"), kubeadm_pod("kube-scheduler", {"master": "10.0.0.1:6443"})) == ()
    assert _found(_hosts("https://10.0.0.1:6443", in_file=True, in_dns=True), pod) == ()
    known = _hosts("https://10.0.0.1:6443", in_file=True)
    with pytest.raises(
        Blocked, match=r"kube-scheduler's flag --master uses https://api\.lan:6443, and api\.lan is only"
    ):
        _found(known, pod)
    assert _found(known, pod, aliases=["api.lan"]) == ()
