"""What a recovery does to a machine."""

from __future__ import annotations

import json

import pytest

from testkit.fakes.hosts import FakeHosts
from tests.unit.recover.controllers import ACTIVE_PATH, controller, generation
from upgrader.errors import HostError
from upgrader.model.workload import CHECKPOINT_OF
from upgrader.ports import CommandResult
from upgrader.recover.restoring.host_actions import HostActions
from upgrader.recover.restoring.next_actions import StartStandby, StartUnit, StopInstances

HOST = controller().host
PUT = StartStandby(HOST, generation(4), ACTIVE_PATH)
MANIFEST = json.dumps({"metadata": {"labels": {CHECKPOINT_OF: "kube-apiserver"}}}, indent=1).encode()


@pytest.fixture
def hosts() -> FakeHosts:
    """A controller that keeps generation 4."""
    hosts = FakeHosts()
    hosts.files[HOST.name, generation(4).manifest] = MANIFEST
    hosts.commands = dict.fromkeys(("sh", "mkdir"), CommandResult(0, "", ""))
    return hosts


@pytest.mark.parametrize("before", [None, b"{half a manif", MANIFEST.replace(b"\n", b"")])
def test_copy_is_the_generation_byte_for_byte(hosts: FakeHosts, before: bytes | None) -> None:
    """The manifest is put in place unchanged, readable by root only, whatever standby pod was there: so the
    pod-checkpointer knows it for its own.
    """
    if before is not None:
        hosts.files[HOST.name, ACTIVE_PATH] = before
    HostActions(hosts).carry_out(PUT)
    assert hosts.files[HOST.name, ACTIVE_PATH] == MANIFEST
    assert hosts.modes[HOST.name, ACTIVE_PATH] == 0o600


def test_folder_of_manifests_is_made_where_it_is_missing(hosts: FakeHosts) -> None:
    """A deleted manifests folder doesn't stop a recovery."""
    HostActions(hosts).carry_out(PUT)
    assert (HOST.name, ("mkdir", "-p", "-m", "0700", "/etc/kubernetes/manifests")) in hosts.ran


@pytest.mark.parametrize("act", ["put", "deactivate"])
def test_what_others_have_put_there_is_left_alone(hosts: FakeHosts, act: str) -> None:
    """A manifest without our label under our name is neither overwritten nor removed, and the error names it."""
    theirs = b'{"metadata": {"name": "theirs"}}'
    hosts.files[HOST.name, ACTIVE_PATH] = theirs
    with pytest.raises(HostError, match="was not changed"):
        HostActions(hosts).carry_out(PUT) if act == "put" else HostActions(hosts).deactivate(HOST, ACTIVE_PATH)
    assert hosts.files[HOST.name, ACTIVE_PATH] == theirs
    assert not any(command[0] == "sh" for _, command in hosts.ran)


def test_generation_that_has_gone_meanwhile(hosts: FakeHosts) -> None:
    """A generation that was pruned since the examination is no reason to write an empty manifest."""
    del hosts.files[HOST.name, generation(4).manifest]
    with pytest.raises(HostError, match="is gone"):
        HostActions(hosts).carry_out(PUT)
    assert (HOST.name, ACTIVE_PATH) not in hosts.files


def test_unit_is_started_also_after_it_failed_too_often(hosts: FakeHosts) -> None:
    """systemd's memory of failed starts is cleared first."""
    HostActions(hosts).carry_out(StartUnit(HOST, "kubelet"))
    ((_, command),) = hosts.ran
    assert command[-1] == "kubelet"
    assert command[2].index("reset-failed") < command[2].index("systemctl start")


def test_a_member_of_etcd_is_not_waited_for(hosts: FakeHosts) -> None:
    """It starts only with a quorum, and the members that are to make it one are started after it."""
    for unit in ("etcd", "kubelet"):
        HostActions(hosts).carry_out(StartUnit(HOST, unit))
    (_, etcd), (_, kubelet) = hosts.ran
    assert "--no-block" in etcd and "--no-block" not in kubelet


STOP = StopInstances(HOST, {"u-2": "kube-apiserver-b", "u-1": "kube-apiserver-a"})


def test_wrong_instances_are_stopped_by_the_uids_of_their_pods(hosts: FakeHosts) -> None:
    """The program that stops them gets the UIDs as arguments, and nothing else."""
    hosts.commands["python3"] = CommandResult(0, '{"stopped": ["kube-apiserver-a"]}\n', "")
    HostActions(hosts).carry_out(STOP)
    assert hosts.ran == [(HOST.name, ("python3", "-I", "-", "u-1", "u-2"))]


@pytest.mark.parametrize(
    ("answer", "words"),
    [('{"failed": "containerd: no answer"}', "containerd: no answer"), ("no JSON", "can't be parsed")],
)
def test_instances_that_could_not_be_stopped_are_an_error(hosts: FakeHosts, answer: str, words: str) -> None:
    """Neither the runtime's refusal nor an answer without sense passes for success."""
    hosts.commands["python3"] = CommandResult(0, answer, "")
    with pytest.raises(HostError, match=words) as failed:
        HostActions(hosts).carry_out(STOP)
    assert "container runtime" in failed.value.remedy
