"""A controller leaves the control plane: whether it may, and each step of its way."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
import yaml

from testkit.fakes.clock import FakeClock
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from upgrader.adopt.etcd_membership import MemberToRemove, change_members
from upgrader.adopt.facts import MANIFESTS
from upgrader.adopt.manifest_step import REMOVED, StaticPods
from upgrader.adopt.names_of_one_controller import check_endpoints, host_of
from upgrader.adopt.removal_steps import (
    DeleteNodeStep,
    ForgetOneStep,
    LeaveEtcdStep,
    LeaveStep,
    RewireKubeletStep,
    StopStaticPodsStep,
    local_server,
)
from upgrader.errors import Blocked, HostError, StepFailed
from upgrader.model.cluster import Host
from upgrader.model.version import KubernetesVersion
from upgrader.ports import CommandResult, Kind

ONE, TWO = Host("controller-1", "10.0.0.1"), Host("controller-2", "10.0.0.2")
OWN = frozenset({"10.0.0.2"})
NODES, PODS = Kind("v1", "nodes", namespaced=False), Kind("v1", "pods")
LEASES = Kind("coordination.k8s.io/v1", "leases")
SYSTEM, CONF = "kube-system", "/etc/kubernetes/kubelet.conf"
LB = "https://api.example.com:6443"


def quiet(text: str) -> None:
    """Take no notes."""


def kubeconfig(server: str) -> bytes:
    """A kubelet's, as kubeadm writes it."""
    return yaml.safe_dump({"clusters": [{"cluster": {"server": server}, "name": "lab"}], "users": []}).encode()


@pytest.mark.parametrize(
    ("server", "found"),
    [
        ("https://10.0.0.2:6443", "https://10.0.0.2:6443"),
        ("https://127.0.0.1:6443", "https://127.0.0.1:6443"),
        ("https://[fd00:0::2]:6443", "https://[fd00:0::2]:6443"),
        (LB, ""),
    ],
)
def test_kubelet_of_its_own_controllers_api(server: str, found: str) -> None:
    """kubeadm of v1.33 and later gives it the address of its own controller."""
    assert local_server(kubeconfig(server), OWN | {"fd00::2"}) == found
    assert local_server(None, OWN) == ""


class Node:
    """A node whose kubelet renews its Lease after a while, where the server that it was started with answers."""

    def __init__(self, server: str, *, reaches: str) -> None:
        self.hosts, self.kube, self.clock, self.restarts = FakeHosts(), FakeKube(), FakeClock(), 0
        self.hosts.files[TWO.name, CONF] = kubeconfig(server)
        self.hosts.commands["systemctl"] = self._restart
        self.dies_before_restart = False
        self._reaches, self._renewals, self._used = reaches, 0, kubeconfig(server)
        self._renew()
        sleep = self.clock.sleep

        def slept(seconds: float) -> None:
            sleep(seconds)
            if self._reaches.encode() in self._used:
                self._renew()

        self.clock.sleep = slept  # type: ignore[method-assign]

    @property
    def conf(self) -> bytes:
        """Its kubeconfig."""
        return self.hosts.files[TWO.name, CONF]

    def step(self) -> RewireKubeletStep:
        """The step on this node."""
        return RewireKubeletStep(self.hosts, self.kube, self.clock, TWO, OWN, LB)

    def _restart(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        if self.dies_before_restart:
            self.dies_before_restart = False
            raise KeyboardInterrupt
        self._renew()  # the last one of the kubelet that ends
        self.restarts, self._used = self.restarts + 1, self.conf
        return CommandResult(0, "", "")

    def _renew(self) -> None:
        self._renewals += 1
        lease = {"metadata": {"name": TWO.name}, "spec": {"renewTime": f"{self._renewals}"}}
        self.kube.put(LEASES, lease, "kube-node-lease")


def test_kubelet_reports_elsewhere_before_its_own_api_ends() -> None:
    """Otherwise none of its pods could ever be reported as ended."""
    node = Node("https://10.0.0.2:6443", reaches=LB)
    node.step().apply(quiet)
    assert node.restarts == 1 and node.conf == kubeconfig(LB)
    assert node.hosts.modes[TWO.name, CONF] == 0o600 and LB in node.step().summary()


def test_kubelet_that_was_not_restarted_before_the_command_was_killed() -> None:
    """What its file says proves nothing of the kubelet that runs: it is restarted, and has to report."""
    node = Node("https://10.0.0.2:6443", reaches=LB)
    node.dies_before_restart = True
    with pytest.raises(KeyboardInterrupt):
        node.step().apply(quiet)
    assert (node.restarts, node.conf) == (0, kubeconfig(LB))
    node.step().apply(quiet)
    assert node.restarts == 1
    silent = Node(LB, reaches="https://10.0.0.2")
    with pytest.raises(StepFailed, match=r"did not report to https://api\.example\.com:6443") as caught:
        silent.step().apply(quiet)
    assert "again" not in caught.value.message and silent.conf == kubeconfig(LB)


def test_kubelet_of_another_api_is_left_alone() -> None:
    """Another load balancer's, or a machine without a kubeconfig of kubeadm's."""
    node = Node("https://lb.example.com:6443", reaches=LB)
    node.step().apply(quiet)
    del node.hosts.files[TWO.name, CONF]
    node.step().apply(quiet)
    assert node.restarts == 0


def test_kubelet_that_does_not_reach_the_others_keeps_its_own() -> None:
    """What the old one reported last is no proof; the step fails before anything was taken from that controller."""
    node = Node("https://10.0.0.2:6443", reaches="https://10.0.0.2")
    with pytest.raises(StepFailed, match=r"did not report to https://api\.example\.com:6443.* uses .*10.0.0.2.* again"):
        node.step().apply(quiet)
    assert node.conf == kubeconfig("https://10.0.0.2:6443") and node.restarts == 2


def pod(name: str, **meta: object) -> dict[str, object]:
    """A pod of kube-apiserver's release on the leaving controller."""
    labels = {"app.kubernetes.io/name": "kube-apiserver"}
    return {"metadata": {"name": name, "labels": labels, **meta}, "spec": {"nodeName": TWO.name}}


def test_pod_that_the_number_of_replicas_has_left_there_is_deleted() -> None:
    """Another controller's pod was not Ready, so Kubernetes took that one away; its replacement goes elsewhere."""
    kube = FakeKube()
    kube.put(PODS, pod("kube-apiserver-a"), SYSTEM)
    LeaveStep(kube, FakeClock(), TWO).apply(quiet)
    assert kube.list(PODS) == ()


def test_pod_that_does_not_end_is_named() -> None:
    """One that ends already is waited for, and not deleted again."""
    kube = FakeKube()
    kube.put(PODS, pod("kube-apiserver-a", deletionTimestamp="2026-01-01T00:00:00Z"), SYSTEM)
    with pytest.raises(StepFailed, match="kube-apiserver-a on controller-2 did not terminate within 180 s"):
        LeaveStep(kube, FakeClock(), TWO).apply(quiet)


def test_checkpoints_are_removed_until_none_comes_back() -> None:
    """The checkpointer's standby pod writes them again until it has ended."""
    hosts, left = FakeHosts(), iter(["/etc/kubernetes/checkpointer", "", "/etc/kubernetes/checkpointer"])
    removed: list[str] = []

    def answer(host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        if command[-1].startswith("rm "):
            removed.append(host.name)
            return CommandResult(0, "", "")
        return CommandResult(0, next(left, ""), "")

    hosts.commands["sh"] = answer
    ForgetOneStep(hosts, FakeClock(), TWO).apply(quiet)
    assert removed == [TWO.name, TWO.name]
    hosts.commands["sh"] = CommandResult(0, "/etc/kubernetes/checkpointer", "")
    with pytest.raises(StepFailed, match="it has recreated the removed checkpoints for 120 s"):
        ForgetOneStep(hosts, FakeClock(), TWO).apply(quiet)


class Etcd:
    """Hosts whose etcd answers; `said` is what the programs that are sent there are told to do."""

    def __init__(self) -> None:
        self.hosts, self.said = FakeHosts(), list[tuple[str, ...]]()
        self.refuses: set[str] = set()
        self.unsettled: list[str] = []
        self.hosts.commands["python3"] = self._python
        self.hosts.commands["sh"] = self._sh

    def step(self, member: MemberToRemove, *, dead: bool = False) -> LeaveEtcdStep:
        """The step of controller-2."""
        version = KubernetesVersion(1, 36, 3)
        pods = None if dead else StaticPods(self.hosts, FakeKube(), FakeClock(), (TWO,), version)
        return LeaveEtcdStep(self.hosts, FakeClock(), TWO, ONE, member, pods)

    def _python(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        what, member = command[-2:]
        self.said.append((host.name, what, member))
        if what == "remove" and self.unsettled:
            return CommandResult(0, json.dumps({"failed": self.unsettled.pop()}), "")
        return CommandResult(0, json.dumps({"failed": "no"} if what in self.refuses else {"done": "removed"}), "")

    def _sh(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        if command[-3] != MANIFESTS:
            return CommandResult(0, "", "")
        self.said.append((host.name, *command[-2:]))
        return CommandResult(0, "moved\n", "")


def test_member_hands_over_before_it_is_removed_and_ends_after_it() -> None:
    """By a member that stays; its manifest goes to where neither the kubelet nor an undo looks."""
    etcd = Etcd()
    etcd.step(MemberToRemove("b2", successor="a1", ask=ONE.name, left=2)).apply(quiet)
    assert etcd.said == [
        (TWO.name, "lead", "a1"),
        (ONE.name, "remove", "b2"),
        (TWO.name, REMOVED, "etcd.yaml"),
    ]


def test_etcd_that_has_just_elected_a_leader_is_asked_again() -> None:
    """It refuses a change of its members until all have been connected for five seconds; not for ever."""
    etcd = Etcd()
    etcd.unsettled = ["etcdserver: unhealthy cluster"] * 3
    etcd.step(MemberToRemove("b2", ask=ONE.name, left=2)).apply(quiet)
    assert [said[1] for said in etcd.said] == ["remove"] * 4 + [REMOVED]
    etcd.unsettled = ["etcdserver: unhealthy cluster"] * 99
    with pytest.raises(HostError, match="unhealthy cluster"):
        etcd.step(MemberToRemove("b2", ask=ONE.name, left=2)).apply(quiet)


def test_member_that_does_not_hand_over_is_removed_all_the_same() -> None:
    """The others elect a leader; a removal that etcd refuses ends the run, before etcd is stopped there."""
    etcd = Etcd()
    etcd.refuses = {"lead", "remove"}
    with pytest.raises(HostError, match="controller-1: no"):
        etcd.step(MemberToRemove("b2", successor="a1", ask=ONE.name, left=2)).apply(quiet)
    assert [said[1] for said in etcd.said] == ["lead", "remove"]


def test_member_of_a_dead_machine_is_only_removed() -> None:
    """Nothing is asked of a machine that is gone; a member that is gone already is fine."""
    etcd = Etcd()
    etcd.step(MemberToRemove("b2", ask=ONE.name, left=2), dead=True).apply(quiet)
    etcd.step(MemberToRemove("", ask=ONE.name, left=2), dead=True).apply(quiet)
    assert etcd.said == [(ONE.name, "remove", "b2")]
    assert "already removed" in etcd.step(MemberToRemove("", ask=ONE.name, left=2)).summary()


def test_answer_is_the_last_line() -> None:
    """A login shell's own words come before it; an answer that can't be parsed is said."""
    hosts = FakeHosts()
    hosts.commands["python3"] = CommandResult(0, 'Welcome!\n{"motd": 1}\n{"done": "removed"}\n', "")
    assert change_members(hosts, ONE, "remove", "b2") == "removed"
    for said in ("welcome", "", "3\n", "{}"):
        hosts.commands["python3"] = CommandResult(0, said, "")
        with pytest.raises(HostError, match="can't be parsed"):
            change_members(hosts, ONE, "remove", "b2")
    hosts.commands["python3"] = CommandResult(0, '{"done": "removed"}\nGood bye!\n', "")
    with pytest.raises(HostError, match="can't be parsed"):
        change_members(hosts, ONE, "remove", "b2")


def test_node_of_a_dead_machine_is_deleted() -> None:
    """With it goes what the API still lists as running there; one that is gone is fine."""
    kube = FakeKube()
    kube.put(NODES, {"metadata": {"name": TWO.name}})
    for _ in range(2):
        DeleteNodeStep(kube, TWO).apply(quiet)
    assert kube.list(NODES) == ()


def test_controller_that_was_never_adopted_can_leave_too() -> None:
    """Its static pods are ended, one manifest after the other, but for etcd's."""
    etcd = Etcd()
    version = KubernetesVersion(1, 36, 3)
    StopStaticPodsStep(StaticPods(etcd.hosts, FakeKube(), FakeClock(), (TWO,), version)).apply(quiet)
    assert [said[-1] for said in etcd.said] == [
        "kube-apiserver.yaml",
        "kube-controller-manager.yaml",
        "kube-scheduler.yaml",
    ]


def test_address_of_the_api_that_is_the_controllers_own_is_refused() -> None:
    """All kubelets would lose the API with it; a load balancer's address is fine, and a name that nobody here knows."""
    hosts = FakeHosts()
    answers = {"api.example.com": "10.0.0.2 STREAM api\n", "lb.example.com": "10.0.0.9 STREAM lb\n10.0.0.2 STREAM\n"}
    hosts.commands["getent"] = lambda host, command, stdin: CommandResult(0, answers.get(command[-1], ""), "")
    check_endpoints(hosts, ONE, TWO.name, OWN, ["lb.example.com", "10.0.0.9", "elsewhere", ""])
    for name in ("api.example.com", "10.0.0.2"):
        with pytest.raises(Blocked, match=f"clients use the API at {name}, an address of controller-2"):
            check_endpoints(hosts, ONE, TWO.name, OWN, [name])


@pytest.mark.parametrize(
    ("endpoint", "host"),
    [("", ""), ("api", "api"), ("api:6443", "api"), ("[fd00::1]:6443", "fd00::1"), ("fd00::1", "fd00::1")],
)
def test_host_of_an_endpoint(endpoint: str, host: str) -> None:
    """As kubeadm's `controlPlaneEndpoint` is written."""
    assert host_of(endpoint) == host
