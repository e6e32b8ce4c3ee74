"""A rehearsal on a host of group `rehearsal`: what it is sent, how, and that nothing of it stays."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from testkit.fakes.hosts import FakeHosts
from tests.unit.steps.rehearsal.sent import asked_in
from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult
from upgrader.steps.backup.etcd_member import EtcdMember
from upgrader.steps.backup.etcd_tools import DataSummary, EtcdTools, SnapshotStatus
from upgrader.steps.rehearsal import rehearsal
from upgrader.steps.rehearsal.delivery import Delivery
from upgrader.steps.rehearsal.rehearsal import Rehearsal
from upgrader.steps.rehearsal.rehearsal_host import RehearsalHost
from upgrader.steps.rehearsal.servers import Server

CONTROLLER, HOST = Host("controller-1", "10.0.0.11"), Host("build-1", "10.0.0.99")
MEMBER = EtcdMember(CONTROLLER, "registry.k8s.io/etcd:3.6.8-0", "controller-1", "", "", "/var/lib/etcd", "", use="u1")
KEYS, ADMISSION = "/etc/kubernetes/keys/encryption.yaml", "/etc/kubernetes/admission.yaml"
FLAGS = (f"--encryption-provider-config={KEYS}", f"--admission-control-config-file={ADMISSION}", "--etcd-prefix=/other")
SERVERS = {
    "current": Server("registry.k8s.io/kube-apiserver:v1.36.3", FLAGS, (KEYS,), "/other"),
    "target": Server("registry.k8s.io/kube-apiserver:v1.37.1", FLAGS, (KEYS,), "/other"),
}
MACHINE_ID = "/etc/machine-id"
PLACE = "/var/lib/upgrader-rehearsal"
WORK = f"{PLACE}/u1"
FOUND = {"findings": [], "counts": {"objects": 3}, "seconds": 4.5, "peak": 1 << 20}


class Machines(FakeHosts):
    """A controller, and a rehearsal host whose programs answer; `did` is what was done, in order."""

    def __init__(self, *, ready: dict[str, Any] | None = None, found: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.did: list[str] = []
        self.asked: dict[str, dict[str, Any]] = {}
        """What each program was asked."""
        self.unit: Sequence[str] = ()
        self.received: list[str] = []
        """The names in the archive."""
        self.files_to_send: dict[str, Any] = {"files": [KEYS, ADMISSION], "file_count": 4, "byte_count": 100}
        self._ready, self._found = ready or {}, found or FOUND
        self.commands |= {"python3": self._program, "sh": self._shell, "tar": self._tar}
        self.commands["touch"] = CommandResult(0, "", "")
        self.files = {(host.name, MACHINE_ID): f"{host.name}\n".encode() for host in (CONTROLLER, HOST)}

    def _program(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        name = stdin.decode().rsplit("upgrader.onhost.rehearsal.", 1)[1].split()[0]
        self.did.append(f"{name} on {host.name}")
        self.asked[name] = json.loads(command[-1])
        return CommandResult(
            0, json.dumps({"room": {}, "ready": self._ready, "files_to_send": self.files_to_send}[name]), ""
        )

    def _tar(self, host: Host, command: Sequence[str], _: bytes) -> CommandResult:
        self.did.append(f"tar on {host.name}")
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name in command[command.index("scratch") :]:
                archive.addfile(tarfile.TarInfo(name))
        return CommandResult(0, made.getvalue().decode("ascii"), "")

    def _shell(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        if "systemd-run" not in command:
            self.did.append(f"remove {command[-2]} on {host.name}")
            assert command[-3:] == ["upgrader-rehearsal-u1.service", WORK, PLACE]
            return CommandResult(0, "", "")
        self.did.append(f"rehearse on {host.name}")
        at, size = command.index("python3"), int(command[command.index("-c", command.index("python3")) + 2])
        self.unit, self.asked["rehearse"] = command[:at], asked_in(stdin)
        assert b"upgrader.onhost.rehearsal.rehearse" in stdin[:size]
        with tarfile.open(fileobj=io.BytesIO(stdin[size:])) as archive:
            self.received = archive.getnames()
        return CommandResult(0, json.dumps(self._found), "")


@pytest.fixture(autouse=True)
def snapshot(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The backup's part, whose tests are elsewhere; returns what is done with the controller's copy."""
    did: list[str] = []

    def prove(_wanted: str, _tools: object, members: list[EtcdMember], work: ExitStack, _note: object) -> object:
        did.append("taken")
        work.callback(did.append, "removed")
        return members[0], SnapshotStatus(1, 2, 3, ""), DataSummary(1234, "", 7, "")

    monkeypatch.setattr(rehearsal, "members_to_ask", lambda *_: [MEMBER])
    monkeypatch.setattr(rehearsal, "prove_any", prove)
    monkeypatch.setattr(EtcdTools, "database_bytes", lambda *_: 1000)
    return did


def rehearse(machines: Machines, note: Callable[[str], None] = lambda _: None) -> Any:
    """On the host."""
    return Rehearsal(machines, (CONTROLLER,), HOST).run(SERVERS, note)


def test_the_data_is_piped_into_a_unit_of_the_host(snapshot: list[str]) -> None:
    """The host is checked first. The data comes on the unit's standard input, so that it is nowhere without the unit;
    the controller's copy is removed, and then the host's folder.
    """
    machines, notes = Machines(), list[str]()
    result = rehearse(machines, notes.append)
    assert machines.did == [
        "ready on build-1",
        "room on controller-1",
        "files_to_send on controller-1",
        "tar on controller-1",
        "rehearse on build-1",
        f"remove {WORK} on build-1",
    ]
    assert (result.controller, result.rehearsal_host, result.seconds) == ("controller-1", "build-1", 4.5)
    assert snapshot == ["taken", "removed"]
    assert machines.received == ["scratch", KEYS, ADMISSION]
    assert not machines.modes, "no file is written by another way"
    assert machines.asked["rehearse"]["incoming"] == {"file_count": 4, "byte_count": 100}
    assert notes[0] == "build-1: checking memory, disk space and images"
    assert notes[1].startswith("build-1: receiving 1,234 keys")


def test_the_controllers_copy_is_gone_while_the_host_compares(
    snapshot: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is removed once it is sent: otherwise, a command that is killed then would leave it there."""
    machines, meanwhile = Machines(), list[str]()
    begin = machines.commands["sh"]

    def comparing(host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        assert callable(begin)
        meanwhile.extend(snapshot if "systemd-run" in command else ())
        return begin(host, command, stdin)

    monkeypatch.setitem(machines.commands, "sh", comparing)
    rehearse(machines)
    assert meanwhile == ["taken", "removed"]


def test_the_unit_is_isolated_as_on_a_controller() -> None:
    """With the same limits, in a private folder that is there before it."""
    machines = Machines()
    rehearse(machines)
    assert machines.unit[:2] == ["sh", "-c"] and "umask 077 && mkdir -p" in machines.unit[2] and WORK in machines.unit
    assert "--unit=upgrader-rehearsal-u1.service" in machines.unit
    for name in (
        "PrivateNetwork=yes",
        "ProtectSystem=strict",
        f"ReadWritePaths={WORK}",
        "MemoryMax=2147483648",
        "CPUWeight=1",
        f"ExecStopPost=/usr/bin/find {WORK} -mindepth 1 -delete",
    ):
        assert f"--property={name}" in machines.unit


def test_flags_name_the_files_where_they_arrive() -> None:
    """Below the private folder; keys in etcd are no files."""
    machines = Machines()
    rehearse(machines)
    target = machines.asked["rehearse"]["servers"]["target"]
    assert target["flags"] == [
        f"--encryption-provider-config={WORK}/files{KEYS}",
        f"--admission-control-config-file={WORK}/files{ADMISSION}",
        "--etcd-prefix=/other",
    ]
    assert target["encryption"] == [f"{WORK}/files{KEYS}"] and target["prefix"] == "/other"
    assert machines.asked["files_to_send"] == {
        "data": "/var/lib/etcd/upgrader/u1/scratch",
        "files": [KEYS, ADMISSION],
        "admission": [ADMISSION],
        "sudo": False,
    }


@pytest.mark.parametrize("become", [True, False])
def test_both_machines_are_asked_whether_their_sudo_keeps_the_data(
    become: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller's reads what is sent, the host's what arrives: only if they are logged in to without root."""
    controller, host = (replace(each, become=become) for each in (CONTROLLER, HOST))
    monkeypatch.setattr(rehearsal, "members_to_ask", lambda *_: [replace(MEMBER, host=controller)])
    machines = Machines()
    Rehearsal(machines, (controller,), host).run(SERVERS, lambda _: None)
    assert (machines.asked["ready"]["sudo"], machines.asked["files_to_send"]["sudo"]) == (become, become)


def test_nothing_is_sent_to_a_host_that_lacks_something(snapshot: list[str]) -> None:
    """What it lacks is said before a snapshot is taken."""
    machines = Machines(ready={"failed": "900 MiB of memory are available, but 2,304 MiB are needed"})
    with pytest.raises(HostError, match=r"^build-1: 900 MiB of memory are available") as caught:
        rehearse(machines)
    assert machines.did == ["ready on build-1"] and not snapshot
    for need in ("systemd", "containerd", "ctr", "2.25 GiB", "images"):
        assert need in caught.value.remedy
    asked = machines.asked["ready"]
    assert asked["bytes"] == 3000 and asked["memory"] == 2 << 30 and asked["units"] == "upgrader-rehearsal-"
    assert asked["images"] == [
        MEMBER.image,
        "registry.k8s.io/kube-apiserver:v1.36.3",
        "registry.k8s.io/kube-apiserver:v1.37.1",
    ]


def test_a_controller_with_another_address_is_refused(snapshot: list[str]) -> None:
    """The inventory doesn't show that both are one machine, and its ID does: nothing is copied. A clone of a controller
    is told how to get an ID of its own.
    """
    machines = Machines()
    machines.files[HOST.name, MACHINE_ID] = machines.files[CONTROLLER.name, MACHINE_ID]
    with pytest.raises(HostError, match=r"^build-1 is the controller controller-1: both have the same /etc") as caught:
        rehearse(machines)
    assert "omit --on build-1" in caught.value.remedy and "systemd-machine-id-setup" in caught.value.remedy
    assert not machines.did and not snapshot


@pytest.mark.parametrize("content", [None, b"\n"])
def test_a_host_that_can_not_be_told_from_a_controller_is_refused(content: bytes | None, snapshot: list[str]) -> None:
    """Without an ID, it may be any machine."""
    machines = Machines()
    machines.files.pop((HOST.name, MACHINE_ID))
    if content is not None:
        machines.files[HOST.name, MACHINE_ID] = content
    with pytest.raises(HostError, match=r"^build-1: /etc/machine-id is missing or empty"):
        rehearse(machines)
    assert not machines.did and not snapshot


def test_a_controller_that_is_down_is_not_the_host(snapshot: list[str]) -> None:
    """The host answers, so that it is another machine."""
    machines = Machines()
    down = Host("controller-2", "10.0.0.12")
    machines.down.add(down.name)
    Rehearsal(machines, (down, CONTROLLER), HOST).run(SERVERS, lambda _: None)
    assert snapshot == ["taken", "removed"]


def test_files_that_can_not_travel_are_refused_before_anything_does() -> None:
    """An admission configuration that names other files, for example."""
    machines = Machines()
    machines.files_to_send = {"failed": f"{ADMISSION} names other files"}
    with pytest.raises(HostError, match=r"controller-1: .* names other files") as caught:
        rehearse(machines)
    assert "omit --on" in caught.value.remedy and machines.did == [
        "ready on build-1",
        "room on controller-1",
        "files_to_send on controller-1",
    ]


@pytest.mark.parametrize("failed", [{"failed": "the cluster's data did not arrive completely"}, {"findings": [{}]}])
def test_what_fails_on_the_host_leaves_nothing(failed: dict[str, Any], snapshot: list[str]) -> None:
    """The unit is stopped, and its folder removed, also where a removal fails: the error that ended it is told."""
    machines = Machines(found=failed)
    with pytest.raises(HostError):
        rehearse(machines)
    assert machines.did[-1] == f"remove {WORK} on build-1" and snapshot == ["taken", "removed"]


def test_an_interruption_leaves_nothing(snapshot: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl+C, after the data was sent, and before an answer."""
    machines = Machines()
    begin = machines.commands["sh"]

    def interrupted(host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        assert callable(begin)
        done = begin(host, command, stdin)
        if "systemd-run" in command:
            raise KeyboardInterrupt
        return done

    monkeypatch.setitem(machines.commands, "sh", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rehearse(machines)
    assert machines.did[-1] == f"remove {WORK} on build-1" and snapshot == ["taken", "removed"]


def test_what_arrives_after_an_interruption_removes_nothing() -> None:
    """The thread that sends may go on for a moment: whoever has ended the comparison removes the controller's copy."""
    machines, sent, arrived = Machines(), list[Iterator[bytes]](), list[bool]()

    class Interrupted(Machines):
        def run(self, host: Host, command: Sequence[str], **named: Any) -> CommandResult:
            if "systemd-run" not in command:
                return machines.run(host, command, **named)
            sent.append(named["stdin"])
            raise KeyboardInterrupt

    data = Delivery("u1", "controller-1", "etcd", 0, 0, iter((b"all",)), arrived=lambda: arrived.append(True))
    with pytest.raises(KeyboardInterrupt):
        RehearsalHost(Interrupted(), HOST, lambda _: None).compare(data, SERVERS)
    assert list(sent[0])[-1] == b"all" and not arrived


def test_a_controller_that_stops_sending_is_told() -> None:
    """Its error is the command's, and the host's folder is removed."""
    machines = Machines()
    machines.commands["tar"] = CommandResult(2, "half", "tar: etcd: file changed as we read it")
    with pytest.raises(HostError, match=r"controller-1: .*file changed as we read it"):
        rehearse(machines)
    assert machines.did[-1] == f"remove {WORK} on build-1"
