"""Kubeconfigs at a controller's loopback address get the node's own, and nothing else of them changes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from testkit.fakes.hosts import FakeHosts
from tests.unit.adopt.kubeadm_pods import controller_with_modes
from upgrader.adopt.kubeconfigs_step import KubeconfigsStep
from upgrader.adopt.leaders_api import OwnServer
from upgrader.errors import StepFailed
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult

_HOST = Host("controller-1", "198.51.100.1")
_CONF = "/etc/kubernetes/scheduler.conf"
_BEFORE, _AFTER = "https://127.0.0.1:6443", "https://10.0.0.1:6443"
_KUBEADMS = """\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: QQ==
    server: https://127.0.0.1:6443
  name: cluster.local
users:
- name: system:kube-scheduler
  user: {client-certificate-data: QQ==, client-key-data: c2VjcmV0}
"""


def _applied(text: str, mode: str = "8180 0 0") -> tuple[FakeHosts, list[str]]:
    """The controller after the step, and what the step noted. Its file has this content and this mode."""
    hosts, notes = controller_with_modes({_CONF: mode}), list[str]()
    hosts.commands |= {"chown": CommandResult(0, "", ""), "readlink": CommandResult(0, f"{_CONF}\n", "")}
    hosts.files[_HOST.name, _CONF] = text.encode()
    KubeconfigsStep(hosts, [OwnServer(_HOST, _CONF, _BEFORE, _AFTER)]).apply(notes.append)
    return hosts, notes


@pytest.mark.parametrize(
    "text",
    [
        _KUBEADMS,
        _KUBEADMS.replace(_BEFORE, f'"{_BEFORE}"'),
        _KUBEADMS.replace(_BEFORE, f"{_BEFORE}  # Kubespray's"),
        _KUBEADMS.replace("\n", "\r\n"),
        '{"clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:6443", "tls-server-name": "api"}}]}',
    ],
)
def test_only_the_server_changes(text: str) -> None:
    """In each form that kubeadm, kubectl and Ansible write: credentials and comments stay, byte for byte."""
    hosts, notes = _applied(text)
    assert hosts.files[_HOST.name, _CONF].decode() == text.replace(_BEFORE, _AFTER)
    assert notes == [f"controller-1: {_CONF} has the server {_AFTER} instead of {_BEFORE}"]


@pytest.mark.parametrize(
    ("mode", "bits", "owner"),
    [("8180 0 0", 0o600, []), ("81a0 0 0", 0o640, []), ("8180 994 990", 0o600, ["chown", "994:990", _CONF])],
)
def test_who_may_read_it_stays(mode: str, bits: int, owner: Sequence[str]) -> None:
    """It has a key: nobody else can read it afterwards, and its owner still can."""
    hosts, _ = _applied(_KUBEADMS, mode)
    assert hosts.modes[_HOST.name, _CONF] == bits
    assert [list(command) for _, command in hosts.ran if command[0] == "chown"] == ([owner] if owner else [])


def test_a_symbolic_link_stays_one() -> None:
    """Its target is changed, in its own folder: a tool that renews that, and its owner, still reach it."""
    target = "/etc/kubernetes/renewed/scheduler-1.conf"
    hosts = controller_with_modes({_CONF: "8180 994 990"})
    hosts.files[_HOST.name, _CONF] = _KUBEADMS.encode()
    hosts.commands |= {"chown": CommandResult(0, "", ""), "readlink": CommandResult(0, f"{target}\n", "")}
    KubeconfigsStep(hosts, [OwnServer(_HOST, _CONF, _BEFORE, _AFTER)]).apply(print)
    assert hosts.files[_HOST.name, target].decode() == _KUBEADMS.replace(_BEFORE, _AFTER)
    assert hosts.modes == {(_HOST.name, target): 0o600}  # nothing else was written
    assert (_HOST.name, ("readlink", "-e", "--", _CONF)) in hosts.ran
    assert (_HOST.name, ("chown", "994:990", target)) in hosts.ran


def test_an_interrupted_step_goes_on() -> None:
    """What is changed already isn't written again."""
    hosts, notes = _applied(_KUBEADMS.replace(_BEFORE, _AFTER))
    assert notes == [] and not hosts.modes


@pytest.mark.parametrize("text", [_KUBEADMS.replace("6443", "64430"), "clusters: []\n"])
def test_another_server_is_not_touched(text: str) -> None:
    """Somebody has changed it since: the step fails with file and address, and writes nothing."""
    with pytest.raises(StepFailed, match=f"controller-1: {_CONF} has no line with the server {_BEFORE}") as caught:
        _applied(text)
    assert _AFTER in caught.value.remedy


def test_a_file_that_has_gone_is_named() -> None:
    """Between the plan and its step."""
    step = KubeconfigsStep(controller_with_modes({}), [OwnServer(_HOST, _CONF, _BEFORE, _AFTER)])
    with pytest.raises(StepFailed, match=f"controller-1: {_CONF} no longer exists"):
        step.apply(print)


def test_plan_names_files_and_address() -> None:
    """Before anything changes, an operator sees which files are edited, and why."""
    step = KubeconfigsStep(FakeHosts(), [OwnServer(_HOST, _CONF, _BEFORE, _AFTER)])
    assert step.summary() == (
        f"set the node's own address instead of {_BEFORE}, which the charts' pods can't reach, in {_CONF} on "
        "controller-1"
    )
