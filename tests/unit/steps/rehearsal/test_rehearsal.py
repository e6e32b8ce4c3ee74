"""A rehearsal on a controller: a unit that can reach nothing and leaves nothing, and what its findings say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from testkit.fakes.hosts import FakeHosts
from tests.unit.steps.rehearsal.sent import asked_in
from upgrader.errors import HostError
from upgrader.model.audit_log import Requests
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult
from upgrader.steps.backup.etcd_member import EtcdMember
from upgrader.steps.backup.etcd_tools import DataSummary, EtcdTools, SnapshotStatus
from upgrader.steps.backup.source_member import members_to_ask, prove_any
from upgrader.steps.rehearsal import rehearsal
from upgrader.steps.rehearsal.client_requests import ClientRequests
from upgrader.steps.rehearsal.differences import Difference, findings_of
from upgrader.steps.rehearsal.rehearsal import Rehearsal
from upgrader.steps.rehearsal.servers import Server

HOST = Host("controller-1", "10.0.0.11")
MEMBER = EtcdMember(HOST, "registry.k8s.io/etcd:3.6.8-0", "controller-1", "", "", "/var/lib/etcd", "", use="u1")
SERVER = Server("registry.k8s.io/kube-apiserver:v1.36.3", ("--allow-privileged=true",), (), "/registry")
SERVERS = {"current": SERVER, "target": SERVER}
FOUND = {"what": "gone", "resource": "webs.x.com", "reason": "", "count": 2, "names": ["default/one"]}


_LONGEST_ARGUMENT = 128 << 10
"""Of a program that Linux starts."""


class Machine(FakeHosts):
    """A controller whose unit answers."""

    def __init__(self, answer: dict[str, Any], code: int = 0) -> None:
        super().__init__()
        self.asked: dict[str, Any] = {}
        self.unit: Sequence[str] = ()
        self._answer, self._code = answer, code
        self.lacking: dict[str, str] = {}
        """Name of a host → why it has no room."""
        self.rooms: list[dict[str, Any]] = []
        self.commands["systemd-run"] = self._run
        self.commands["python3"] = self._room

    def _run(self, _: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        at = command.index("python3")
        assert max(map(len, command)) < _LONGEST_ARGUMENT
        self.unit, self.asked = command[:at], asked_in(stdin)
        assert b"upgrader.onhost.rehearsal.rehearse" in stdin
        return CommandResult(self._code, json.dumps(self._answer), "")

    def _room(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        assert b"upgrader.onhost.rehearsal.room import main" in stdin
        self.rooms.append(json.loads(command[-1]))
        why = self.lacking.get(host.name)
        return CommandResult(0, json.dumps({"failed": why} if why else {}), "")


@pytest.fixture(autouse=True)
def snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the backup's, whose tests are elsewhere."""

    def prove(_wanted: str, _tools: object, members: list[EtcdMember], _work: ExitStack, _note: object) -> object:
        return members[0], SnapshotStatus(1, 2, 3, ""), DataSummary(1234, "", 7, "")

    monkeypatch.setattr(rehearsal, "members_to_ask", lambda *_: [MEMBER])
    monkeypatch.setattr(rehearsal, "prove_any", prove)
    monkeypatch.setattr(EtcdTools, "database_bytes", lambda *_: 1000)


def test_it_runs_in_a_unit_that_reaches_nothing_and_leaves_nothing() -> None:
    """With limits. It writes, and at its end removes, only the folder of this use."""
    counts = {"objects": 3, "read": 3, "updated": 3, "created": 3, "unproven": 0}
    machine = Machine({"findings": [FOUND], "counts": counts, "seconds": 4.5, "peak": 1 << 20})
    notes: list[str] = []
    result = Rehearsal(machine, (HOST,)).run(SERVERS, notes.append)
    assert result.differences == (Difference("gone", "webs.x.com", "", 2, ("default/one",)),)
    assert (result.controller, result.counts, result.seconds) == ("controller-1", counts, 4.5)
    assert notes == ["controller-1: comparing both versions on copies of 1,234 keys"]
    assert "--unit=upgrader-rehearsal-u1.service" in machine.unit
    assert "--slice=-.slice" in machine.unit, "its weight counts against all pods', and not within system.slice alone"
    assert machine.asked["unit"] == "upgrader-rehearsal-u1.service"
    for name in (
        "PrivateNetwork=yes",
        "ProtectSystem=strict",
        "ReadWritePaths=/var/lib/etcd/upgrader/u1",
        "MemoryMax=2147483648",
        "OOMPolicy=continue",
        "LimitCORE=1",
        "CPUWeight=1",
        "RuntimeMaxSec=2400",
        "TimeoutStopSec=600",
        "ExecStopPost=/usr/bin/find /var/lib/etcd/upgrader/u1 -mindepth 1 -delete",
    ):
        assert f"--property={name}" in machine.unit
    assert machine.asked["work"] == "/var/lib/etcd/upgrader/u1" and machine.asked["data"] == "scratch"
    assert machine.asked["requests"] == []
    assert machine.asked["servers"]["target"]["flags"] == ["--allow-privileged=true"]


def test_that_a_cluster_may_be_too_large_is_told_before_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes minutes until the memory is used up."""
    proven = MEMBER, SnapshotStatus(1, 2, 3, ""), DataSummary(400_000, "", 7, "")
    monkeypatch.setattr(rehearsal, "prove_any", lambda *_: proven)
    notes: list[str] = []
    Rehearsal(Machine({"findings": []}), (HOST,)).run(SERVERS, notes.append)
    assert "400,000 keys are expected to need" in notes[0] and "comparing" in notes[1]


def test_requests_of_an_audit_log_may_be_many() -> None:
    """As those of a cluster with a thousand CustomResourceDefinitions."""
    machine = Machine({"findings": []})
    verbs = ("create", "delete", "get", "list", "patch", "update", "watch")
    sent = [Requests("u", "a", f"group{number}.example.com/v1", "resources", verbs, 1, "") for number in range(2000)]
    Rehearsal(machine, (HOST,), requests=ClientRequests(sent)).run(SERVERS, lambda _: None)
    assert len(machine.asked["requests"]) == 2000


@pytest.mark.parametrize(
    ("answer", "code", "why"),
    [
        ({"failed": "1,000 MiB of memory are available, but 2,304 MiB are needed"}, 0, "of memory are available"),
        ({"findings": [{"what": "gone"}]}, 0, "can't be parsed"),
    ],
)
def test_what_can_not_be_done_says_why(answer: dict[str, Any], code: int, why: str) -> None:
    """And what to do."""
    with pytest.raises(HostError, match=why) as caught:
        Rehearsal(Machine(answer, code), (HOST,)).run(SERVERS, lambda _: None)
    assert "upgrader check --trial" in caught.value.remedy


def test_a_controller_without_room_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshot itself, and what is restored of it, take the disk space that its kubelet wants free: so it is told
    before there is one, and another controller is asked.
    """
    other = replace(MEMBER, host=Host("controller-2", "10.0.0.12"))
    monkeypatch.setattr(rehearsal, "members_to_ask", lambda *_: [MEMBER, other])
    machine, notes = Machine({"findings": []}), list[str]()
    machine.lacking["controller-1"] = "3,000 MiB of free space, but 4,000 MiB are needed"
    result = Rehearsal(machine, (HOST, other.host)).run(SERVERS, notes.append)
    assert result.controller == "controller-2"
    assert machine.rooms == [{"folder": "/var/lib/etcd/upgrader", "bytes": 4000 + (256 << 20), "memory": 2 << 30}] * 2
    assert notes[0] == "controller-1: 3,000 MiB of free space, but 4,000 MiB are needed"
    machine.lacking["controller-2"] = "no memory"
    monkeypatch.setattr(rehearsal, "prove_any", lambda *_: pytest.fail("a snapshot was taken"))
    with pytest.raises(HostError, match="controller-1: 3,000 MiB"):
        Rehearsal(machine, (HOST, other.host)).run(SERVERS, notes.append)


def test_a_damaged_snapshot_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another member is asked. If none has a good one, nothing is compared, and each work folder is gone."""
    other = replace(MEMBER, host=Host("controller-2", "10.0.0.12"))
    made, there = list[str](), set[str]()

    @contextmanager
    def workspace(_: EtcdTools, member: EtcdMember, *__: object) -> Iterator[EtcdMember]:
        made.append(member.host.name)
        there.add(member.host.name)
        try:
            yield member
        finally:
            there.remove(member.host.name)

    def prove(_: EtcdTools, member: EtcdMember, *__: object, **___: object) -> None:
        raise HostError(f"{member.host.name}: etcdutl: snapshot file integrity check failed")

    monkeypatch.setattr(rehearsal, "members_to_ask", lambda *_: [MEMBER, other])
    monkeypatch.setattr(rehearsal, "prove_any", prove_any)
    monkeypatch.setattr(EtcdTools, "workspace", workspace)
    monkeypatch.setattr(EtcdTools, "prove", prove)
    machine = Machine({"findings": []})
    with pytest.raises(HostError, match=r"no rehearsal is possible: controller-1: etcdutl.*; controller-2: etcdutl"):
        Rehearsal(machine, (HOST, other.host)).run(SERVERS, lambda _: None)
    assert made == ["controller-1", "controller-2"] and not there and not machine.unit


def test_without_etcds_data_no_rehearsal_is_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody wanted a backup: the message doesn't speak of one."""
    monkeypatch.setattr(rehearsal, "members_to_ask", members_to_ask)
    with pytest.raises(HostError, match=r"^no rehearsal is possible: controller-1: etcd is not a static pod") as caught:
        Rehearsal(FakeHosts(), (HOST,)).run(SERVERS, lambda _: None)
    assert "backup" not in caught.value.message


@pytest.mark.parametrize(
    ("id_", "severity"),
    [
        ("rehearsal.start", "error"),
        ("rehearsal.crash", "error"),
        ("rehearsal.gone", "error"),
        ("rehearsal.version", "warning"),
        ("rehearsal.unreadable", "error"),
        ("rehearsal.left", "error"),
        ("rehearsal.update", "error"),
        ("rehearsal.status", "error"),
        ("rehearsal.create", "error"),
        ("rehearsal.manifest", "error"),
        ("rehearsal.manifest-gone", "error"),
        ("rehearsal.manifest-unread", "unknown"),
        ("rehearsal.changed", "warning"),
        ("rehearsal.added", "info"),
        ("rehearsal.dropped", "warning"),
        ("rehearsal.denied", "error"),
        ("rehearsal.token", "error"),
        ("rehearsal.conversion", "unknown"),
        ("rehearsal.nested", "unknown"),
        ("rehearsal.parameters", "unknown"),
        ("rehearsal.elsewhere", "unknown"),
        ("rehearsal.kms", "unknown"),
        ("rehearsal.unlisted", "unknown"),
        ("rehearsal.unfinished", "unknown"),
    ],
)
def test_each_difference_is_a_finding(id_: str, severity: str) -> None:
    """What was not compared is unknown, and never fine. Each says what to do."""
    what = id_.partition(".")[2]
    (found,) = findings_of([Difference(what, "webs.x.com", "the reason", 2, ("default/one",))])
    assert (found.id, found.severity) == (id_, severity)
    assert found.remedy
    if what in (
        "gone",
        "version",
        "unreadable",
        "update",
        "status",
        "create",
        "changed",
        "added",
        "dropped",
        "denied",
        "conversion",
        "nested",
        "parameters",
        "manifest",
    ):
        assert "2 of webs.x.com: default/one, …" in found.diagnosis
    if what in (
        "start",
        "unreadable",
        "left",
        "update",
        "create",
        "changed",
        "added",
        "dropped",
        "denied",
        "token",
        "unlisted",
        "manifest",
    ):
        assert "the reason" in found.diagnosis


def test_what_is_not_served_and_has_no_objects_is_said_to_have_none() -> None:
    """No number of objects, and no name, is made up."""
    gone, version = findings_of(Difference(what, "webs.x.com", "v1", 0, ()) for what in ("gone", "version"))
    assert (gone.id, gone.severity) == ("rehearsal.gone", "error")
    assert gone.title.endswith("webs.x.com, which a CustomResourceDefinition defines")
    assert "None are stored" in gone.diagnosis and version.diagnosis == "no webs.x.com are stored"


@pytest.mark.parametrize(
    ("request_", "said"), [("update", "update"), ("create", "create"), ("status", "update the status of")]
)
def test_what_the_running_version_refuses_is_unknown(request_: str, said: str) -> None:
    """It says nothing about the target: which requests, for which objects, and why."""
    (found,) = findings_of([Difference(f"no-{request_}", "webs.x.com", "the reason", 2, ("default/one",))])
    assert (found.id, found.severity) == ("rehearsal.unproven", "unknown")
    assert f"refuses to {said} any webs.x.com" in found.title
    assert "2 of webs.x.com: default/one, …. It says: the reason" in found.diagnosis and found.remedy


def test_a_difference_that_is_not_known_is_refused() -> None:
    """An answer of another form is not a finding."""
    with pytest.raises(KeyError):
        list(findings_of([Difference("other", "webs", "", 1, ())]))
