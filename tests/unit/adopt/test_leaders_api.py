"""The charts' pods must reach the API where kube-controller-manager's and kube-scheduler's kubeconfigs lead."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import yaml

from testkit.fakes.hosts import FakeHosts
from tests.unit.adopt.kubeadm_pods import controller_with_modes, kubeadm_facts, kubeadm_pod, volume
from upgrader.adopt.leaders_api import aliases_of, check_leaders_api
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


@pytest.mark.parametrize("server", ["https://127.0.0.1:6443", "https://localhost:6443", "https://[::1]:6443"])
def test_the_controllers_own_loopback_is_refused(server: str) -> None:
    """As Kubespray has it on its controllers: the file and the controller are named."""
    with pytest.raises(Blocked, match=r"controller-1: /etc/kubernetes/scheduler\.conf has the server") as caught:
        check_leaders_api(_hosts(server), kubeadm_facts(), ())
    assert "nothing was changed" in caught.value.message
    assert f"sed -i 's#{server}#https://10.0.0.1:6443#' {_CONF}" in caught.value.remedy


def test_the_kubeconfig_of_the_schedulers_configuration_file_is_read() -> None:
    """kube-scheduler takes its kubeconfig from the file of `--config`, as with Kubespray, and not from its flag. Its
    path on the controller is named: that is where it can be changed.
    """
    hosts = _hosts("https://10.0.0.1:6443")
    hosts.files["controller-1", "/srv/scheduler.yaml"] = b"clientConnection: {kubeconfig: /etc/kubernetes/own.conf}"
    hosts.files["controller-1", "/srv/own.conf"] = b"clusters: [{cluster: {server: 'https://127.0.0.1:1'}}]"
    pod = kubeadm_pod(
        "kube-scheduler",
        {"config": "/etc/kubernetes/scheduler.yaml"},
        volume("config", "/srv/scheduler.yaml", "File", at="/etc/kubernetes/scheduler.yaml"),
        volume("own", "/srv/own.conf", "File", at="/etc/kubernetes/own.conf"),
    )
    with pytest.raises(Blocked, match=r"controller-1: /srv/own\.conf has the server https://127\.0\.0\.1:1") as caught:
        check_leaders_api(hosts, kubeadm_facts(pod), ())
    assert "#https://10.0.0.1:1#' /srv/own.conf." in caught.value.remedy


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
        check_leaders_api(hosts, kubeadm_facts(pod), ())
    assert caught.value.remedy


def test_a_name_that_only_the_controller_knows_is_refused_unless_it_is_told() -> None:
    """The pods read no /etc/hosts of the node; the chart's hostAliases tell them."""
    hosts = _hosts("https://lb-apiserver.kubernetes.local:6443", in_file=True)
    with pytest.raises(Blocked, match="a name that is only in /etc/hosts") as caught:
        check_leaders_api(hosts, kubeadm_facts(), ())
    assert "controlPlane.hostAliases" in caught.value.remedy
    values = {"controlPlane": {"hostAliases": [{"ip": "10.0.0.9", "hostnames": ["lb-apiserver.kubernetes.local"]}]}}
    check_leaders_api(hosts, kubeadm_facts(), aliases_of(values))


@pytest.mark.parametrize(
    ("server", "in_dns"), [("https://10.0.0.1:6443", False), ("https://[fd00::1]:6443", False), ("https://api:1", True)]
)
def test_what_pods_can_reach(server: str, in_dns: bool) -> None:
    """The controller's own address, as kubeadm writes it, and a name in DNS."""
    check_leaders_api(_hosts(server, in_file=in_dns, in_dns=in_dns), kubeadm_facts(), ())
