"""The program that is sent to a host, run for real on a folder that stands for its disk, and what is made of it."""

from __future__ import annotations

import base64
import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from testkit.certificates import Authority
from testkit.fakes.hosts import FakeHosts
from testkit.waiting import stretched
from tests.unit.in_cluster.checkpointer.builders import API, Contents, made, pod
from tests.unit.in_cluster.checkpointer.container_runtime import Runtime, container, field, sandbox
from upgrader.errors import HostError
from upgrader.in_cluster.checkpointer.storage.store import Store
from upgrader.model.cluster import Cluster, Host
from upgrader.onhost.common import questions
from upgrader.onhost.facts import checkpoint_facts, etcd_facts
from upgrader.onhost.facts.container_facts import socket_path
from upgrader.onhost.facts.identity_facts import ranges
from upgrader.onhost.node.generation import Origin
from upgrader.onhost.node.workload_policy import Policy, Workload
from upgrader.onhost.sending.collect import examine, examine_all
from upgrader.onhost.sending.host_facts import (
    Certificate,
    Cgroups,
    EtcdServer,
    Generation,
    HostFacts,
    Identity,
    Manifests,
    Unit,
    Unknown,
)
from upgrader.onhost.sending.shipped_program import program
from upgrader.ports import CommandResult

HOST = Host("controller-1", "10.0.0.11")
IMAGE = field(1, field(1, "sha256:aa") + field(3, "example/main@sha256:bb"))
FLAGS = ["--data-dir=/var/lib/etcd", "--name=controller-1", "--initial-advertise-peer-urls=https://10.0.0.11:2380"]


class Disk:
    """A controller's disk in a folder, and its program run as on the host. Images and containers are the test's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.images = {"example/main:v1": IMAGE}
        self.status = b""
        self.environment = {"PATH": ""}
        self.store = Store(root / "etc/kubernetes")
        self.store.root.mkdir(parents=True)
        self.store.prepare()
        (root / "run/containerd").mkdir(parents=True)
        self._runtime: Runtime | None = None

    def start_runtime(self) -> None:
        """containerd, of which these tests know what they put in."""
        self._runtime = Runtime(self.root / "run/containerd/containerd.sock", self._answer)

    def close(self) -> None:
        """Stop it."""
        if self._runtime is not None:
            self._runtime.close()

    def _answer(self, method: str) -> tuple[bytes, str]:
        name = "kube-apiserver-5c4-x1"
        return {
            "Version": (field(2, "containerd") + field(3, "2.1.0"), "0"),
            "ListPodSandbox": (sandbox(name), "0"),
            "ListContainers": (container("kube-apiserver", 2, "c1", name), "0"),
            "ContainerStatus": (field(1, self.status), "0") if self.status else (b"", "5"),
            "ImageStatus": (next(iter(self.images.values()), b""), "0"),
        }[method.rpartition("/")[2]]

    def write(self, path: str, content: str | bytes) -> Path:
        """A file of the host."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def start_api_with(self, servers: str) -> None:
        """kubeadm's static pod of kube-apiserver, with these servers of etcd."""
        self.write(
            "/etc/kubernetes/manifests/kube-apiserver.yaml", f"    - kube-apiserver\n    - --etcd-servers={servers}\n"
        )

    def capture(self, secret: bytes = b"canary") -> int:
        """A generation, written as the pod-checkpointer writes it."""
        source = pod(volumes=[{"name": "tls", "secret": {"secretName": "tls"}}])
        candidate = made(source, Contents({("Secret", "tls"): {"key": secret}}))
        origin = Origin(
            "kube-apiserver-abc-x1", "uid-1", "controller-1", "abc", "4", "2026-01-01T00:00:00Z", "Deployment"
        )
        return self.store.capture(candidate, Policy.API_AWAY, "", origin)

    def generation(self, number: int) -> Path:
        """The folder of a generation of kube-apiserver."""
        return self.store.root / "checkpointer/workloads/kube-system.kube-apiserver/generations" / str(number)

    def run(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        """What SSH would do."""
        assert command == ["python3", "-I", "-"]
        done = subprocess.run(
            [sys.executable, "-I", "-", str(self.root)],
            input=stdin,
            capture_output=True,
            env=self.environment,
            timeout=stretched(60),
            check=False,
        )
        return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())

    def examine(self) -> HostFacts:
        """The facts of this disk."""
        hosts = FakeHosts()
        hosts.commands["python3"] = self.run
        return examine(hosts, HOST)

    def generations(self) -> tuple[Generation, ...]:
        """What it reports of kube-apiserver's generations."""
        workload = self.examine().workload()
        return workload.generations if workload else ()


@pytest.fixture
def disk() -> Iterator[Disk]:
    """A controller's disk; its path is short, as a socket's path must be."""
    root = Path(tempfile.mkdtemp(dir="/tmp"))
    disk = Disk(root)
    try:
        yield disk
    finally:
        disk.close()
        shutil.rmtree(root)


def test_generations_of_the_checkpointer_are_read_as_it_reads_them(disk: Disk) -> None:
    """What the pod-checkpointer wrote is intact here too; number, time, images and folder are as recorded."""
    disk.start_runtime()
    disk.capture(b"one")
    disk.capture(b"two")
    found = disk.generations()
    assert [(g.number, g.damage, g.missing) for g in found] == [(1, "", ()), (2, "", ())]
    assert found[1].captured_at == "2026-01-01T00:00:00Z"
    assert found[1].images == {"main": "example/main:v1"}
    assert found[1].helm_revision == "4"
    assert found[1].folder == "/etc/kubernetes/checkpointer/workloads/kube-system.kube-apiserver/generations/2"


@pytest.mark.parametrize(
    "change",
    ["manifest.json was changed", "volumes/tls/key was changed", "volumes/tls/key is missing", "volumes/x was added"],
)
def test_damage_is_named_as_the_checkpointer_names_it(disk: Disk, change: str) -> None:
    """Every kind of damage is found, in the same words as the checkpointer's own; the other generation is intact."""
    disk.start_runtime()
    disk.capture(b"one")
    disk.capture(b"two")
    file = disk.generation(2) / change.split()[0]
    if "missing" in change:
        file.unlink()
    else:
        file.write_bytes(b"x")
    assert [g.damage for g in disk.generations()] == ["", change]
    assert disk.store.read()[API].damaged == {2: change}


def test_a_record_that_cannot_be_read_is_damage(disk: Disk) -> None:
    """Half a generation.json, or one of a later version, is no generation to start."""
    disk.start_runtime()
    disk.capture(b"one")
    disk.capture(b"two")
    (disk.generation(1) / "generation.json").write_text("{")
    (disk.generation(2) / "generation.json").write_text('{"schema": 99}')
    damage = [g.damage for g in disk.generations()]
    wrong, later = "generation.json can't be parsed", "generation.json has the unsupported format 99"
    assert damage == [wrong, later]
    assert disk.store.read()[API].damaged == dict(enumerate(damage, 1))


def test_the_active_standby_pod_is_told_by_its_content(disk: Disk) -> None:
    """The manifest in place is a generation's, byte for byte, or none's."""
    disk.start_runtime()
    disk.capture()
    disk.store.activate(API, 1)
    workload = disk.examine().workload()
    assert workload is not None and workload.active is not None
    assert workload.active.number == 1
    assert disk.root / workload.active.path.lstrip("/") == disk.store.manifest_path(API)
    disk.store.manifest_path(API).write_text("{}")
    workload = disk.examine().workload()
    assert workload is not None and workload.active is not None and workload.active.number is None


def test_marks_of_failure_are_read_as_the_checkpointer_writes_them(disk: Disk) -> None:
    """What the checkpointer marked is passed over here too; marks that can't be read are reported as unknown."""
    disk.start_runtime()
    disk.capture(b"one")
    disk.capture(b"two")
    disk.store.mark_failed(API, 2, "did not stay up")
    assert [g.failure for g in disk.generations()] == ["", "did not stay up"]
    workload = disk.examine().workload()
    assert workload is not None and workload.restorable is not None and workload.restorable.number == 1
    disk.store.failed_path(API).write_text("{")
    workload = disk.examine().workload()
    assert workload is not None and "can't be parsed" in workload.marks_unknown
    assert workload.restorable is not None and workload.restorable.number == 2


def test_an_image_that_is_gone_or_another_is_missing(disk: Disk) -> None:
    """Not there is missing; so is another image of the same name. Without a runtime it is unknown."""
    disk.capture()
    assert isinstance(disk.generations()[0].missing, Unknown)
    disk.start_runtime()
    disk.images = {"": b""}
    assert disk.generations()[0].missing == ("example/main:v1",)
    disk.images = {"": field(1, field(1, "sha256:other"))}
    assert disk.generations()[0].missing == ("example/main:v1 (there is another image of that name)",)


def test_a_containers_end_and_last_words(disk: Disk) -> None:
    """Exit code, times and log of an ended container come from the runtime; secrets in its log are masked."""
    log = disk.write(
        "/var/log/pods/x/0.log", "2026-01-01T00:00:00Z stderr F Error: bad\n2026 stdout F token=abcdef123\n"
    )
    disk.status = (
        field(1, "c1")
        + field(2, field(1, "kube-apiserver") + field(2, 3))
        + field(3, 2)
        + field(4, 1_700_000_000_000_000_000)
        + field(7, 1)
        + field(8, field(1, "example/main:v1"))
        + field(15, str(log).removeprefix(str(disk.root)))
    )
    disk.start_runtime()
    facts = disk.examine()
    assert facts.runtime.answers and facts.runtime.said == "containerd 2.1.0"
    assert not isinstance(facts.containers, Unknown)
    (found,) = facts.containers
    assert (found.name, found.state, found.exit_code, found.attempt) == ("kube-apiserver", "exited", 1, 3)
    assert found.created == 1_700_000_000.0
    assert found.log == ("Error: bad", "token=[masked]")


def test_without_a_runtime_containers_are_unknown(disk: Disk) -> None:
    """A socket that isn't there is reported as such; containers are unknown then."""
    facts = disk.examine()
    assert not facts.runtime.answers
    assert "No such file" in facts.runtime.said
    assert isinstance(facts.containers, Unknown)


def test_a_tool_that_is_missing_makes_its_facts_unknown(disk: Disk) -> None:
    """Without systemctl the state of services is unknown, and the rest is there."""
    facts = disk.examine()
    assert facts.kubelet == Unknown("systemctl was not found on this host")
    assert facts.manifests == Manifests(True, ())


def test_what_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that doesn't end is ended; a question that doesn't end is left behind, and the others have answers."""
    monkeypatch.setattr(questions, "SECONDS", 0.1)
    with pytest.raises(questions.Failed, match="sleep timed out"):
        questions.command("sleep", "60")
    never = threading.Event()
    answers = questions.together({"hangs": never.wait, "answers": lambda: 1}, 0.1)
    never.set()
    assert answers["answers"] == 1
    assert "no answer" in answers["hangs"]["unknown"]


def test_services_are_as_systemd_says(disk: Disk) -> None:
    """State, result and exit status of a unit, with its last words when it doesn't run."""
    tools = disk.root / "bin"
    tools.mkdir()
    (tools / "systemctl").write_text(
        "#!/bin/sh\necho ActiveState=failed\necho SubState=failed\necho Result=exit-code\necho ExecMainStatus=203\n"
        "echo LoadState=loaded\necho UnitFileState=enabled\necho NRestarts=5\n"
    )
    (tools / "journalctl").write_text("#!/bin/sh\necho 'kubelet: no such file'\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    disk.environment = {"PATH": str(tools)}
    found = disk.examine().kubelet
    assert isinstance(found, Unit)
    assert (found.running, found.state, found.result, found.exit_status) == (False, "failed", "exit-code", 203)
    assert found.said == ("kubelet: no such file",)


@pytest.mark.parametrize(
    ("state", "enabled", "kubeadms"),
    [
        ("active", "disabled", False),
        ("failed", "enabled", False),
        ("inactive", "enabled", False),
        ("inactive", "disabled", True),  # a package that nobody uses
        ("inactive", "", True),  # there is no such unit
    ],
)
def test_data_of_a_service_is_no_sign_of_a_static_pod(disk: Disk, state: str, enabled: str, kubeadms: bool) -> None:
    """Kubespray's etcd is a service with kubeadm's data folder, also while it is stopped; without such a service, data
    alone is kubeadm's.
    """
    disk.write("/var/lib/etcd/member/snap/db", "data")
    assert disk.examine().has_etcd
    tools = disk.root / "bin"
    tools.mkdir()
    (tools / "systemctl").write_text(f"#!/bin/sh\necho ActiveState={state}\necho UnitFileState={enabled}\n")
    (tools / "systemctl").chmod(0o755)
    disk.environment = {"PATH": str(tools)}
    disk.start_api_with("https://127.0.0.1:2379")
    found = disk.examine()
    assert found.has_etcd is kubeadms
    assert (found.etcd_service.name if found.etcd_service else None) == (None if kubeadms else "etcd")
    disk.write("/etc/kubernetes/manifests/etcd.yaml", "command:\n- etcd\n- --data-dir=/var/lib/etcd\n")
    assert disk.examine().has_etcd


def test_certificates_but_no_keys_leave_the_host(disk: Disk) -> None:
    """Validity is read from the first certificate of each file; the kubelet's file holds a key, which stays there."""
    pki = disk.root / "var/lib/kubelet/pki"
    pki.mkdir(parents=True)
    authority = Authority(pki / "ca")
    authority.issue(pki / "own", "system:node:x")
    pem = (pki / "own.pem").read_text()
    key = next((p.read_text() for p in pki.iterdir() if "PRIVATE KEY" in p.read_text()), "")
    assert key
    disk.write("/var/lib/kubelet/pki/kubelet-client-current.pem", key + pem)
    disk.write("/etc/kubernetes/pki/apiserver.crt", "no certificate")
    raw = disk.run(HOST, ["python3", "-I", "-"], program()).stdout
    assert "PRIVATE" not in raw
    known = [c for c in disk.examine().certificates if isinstance(c, Certificate)]
    unknown = [c for c in disk.examine().certificates if isinstance(c, Unknown)]
    assert [c.path for c in known] == ["/var/lib/kubelet/pki/kubelet-client-current.pem"]
    assert known[0].not_before < known[0].not_after
    assert len(unknown) == 1


def test_certificates_have_their_path_without_links_too(disk: Disk) -> None:
    """Kubespray's flags name the folder to which kubeadm's leads."""
    folder = disk.root / "etc/kubernetes/ssl"
    folder.mkdir()
    Authority(disk.root / "authority").issue(folder / "x", "kube-apiserver")
    (folder / "x.pem").rename(folder / "apiserver.crt")
    (disk.root / "etc/kubernetes/pki").symlink_to(folder)
    (found,) = disk.examine().certificates
    assert isinstance(found, Certificate)
    assert (found.path, found.real) == ("/etc/kubernetes/pki/apiserver.crt", "/etc/kubernetes/ssl/apiserver.crt")


def test_of_tokens_keys_only_digests_leave_the_host(disk: Disk) -> None:
    """The same key has the same digest, however its lines end; no line of it is in the answer."""
    disk.write("/etc/machine-id", "0123abcd\n")
    disk.write("/etc/kubernetes/pki/sa.pub", "PUBLIC\r\nLINE\r\n")
    disk.write("/etc/kubernetes/pki/sa.key", "SECRET\nLINE\n")
    assert "SECRET" not in disk.run(HOST, ["python3", "-I", "-"], program()).stdout
    first = disk.examine().identity
    assert isinstance(first, Identity) and first.machine_id == "0123abcd"
    assert len(first.ephemeral) == 2
    assert first.migrate_req in (None, 0, 1)
    assert list(first.keys) == ["/etc/kubernetes/pki/sa.pub", "/etc/kubernetes/pki/sa.key"]
    disk.write("/etc/kubernetes/pki/sa.pub", "PUBLIC\nLINE")
    disk.write("/etc/kubernetes/pki/sa.key", "OTHER\nLINE\n")
    second = disk.examine().identity
    assert isinstance(second, Identity)
    assert [first.keys[path] == second.keys[path] for path in first.keys] == [True, False]


def test_cgroups_and_what_the_kubelet_is_told_of_them(disk: Disk) -> None:
    """Version 2 has its file at the top; where the folder is missing, nothing is guessed."""
    assert disk.examine().cgroups == Unknown("the folder /sys/fs/cgroup does not exist")
    disk.write("/sys/fs/cgroup/memory/tasks", "")
    assert disk.examine().cgroups == Cgroups(1)
    disk.write("/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\nfailCgroupV1: false\nfailSwapOn: true\n")
    assert disk.examine().cgroups == Cgroups(1, fail_v1=False)
    disk.write("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
    assert disk.examine().cgroups == Cgroups(2, fail_v1=False)


def test_the_kubelets_configuration_is_the_file_that_it_reads(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubespray's kubelet reads a file of its own, with Ansible's spelling; kubeadm's beside it says something else."""
    disk.write("/sys/fs/cgroup/memory/tasks", "")
    disk.write(
        "/var/lib/kubelet/config.yaml", "failCgroupV1: true\ncontainerRuntimeEndpoint: unix:///run/kubeadms.sock\n"
    )
    disk.write("/bin/systemctl", "#!/bin/sh\necho 812\n").chmod(0o755)
    disk.environment = {"PATH": str(disk.root / "bin")}
    monkeypatch.setenv("PATH", disk.environment["PATH"])
    disk.write("/proc/812/cmdline", "/usr/local/bin/kubelet\0--v=2\0--config=/etc/kubernetes/kubelet-config.yaml\0")
    assert disk.examine().cgroups == Cgroups(1)
    own = "failCgroupV1: False\ncontainerRuntimeEndpoint : unix:///run/own.sock\n"
    disk.write("/etc/kubernetes/kubelet-config.yaml", own)
    assert disk.examine().cgroups == Cgroups(1, fail_v1=False)
    assert socket_path(str(disk.root)) == f"{disk.root}/run/own.sock"
    disk.write("/proc/812/cmdline", "/usr/local/bin/kubelet\0")
    assert disk.examine().cgroups == Cgroups(1, fail_v1=True)


def test_systemd_is_not_asked_for_a_runtime_that_kubeadm_names(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host whose systemd hangs is one to recover: nothing waits for it that another file says."""
    asked = disk.root / "asked"
    disk.write("/bin/systemctl", f"#!/bin/sh\necho $* >> {asked}\n").chmod(0o755)
    monkeypatch.setenv("PATH", str(disk.root / "bin"))
    disk.write(
        "/var/lib/kubelet/kubeadm-flags.env", 'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=/run/a.sock"\n'
    )
    assert socket_path(str(disk.root)) == f"{disk.root}/run/a.sock"
    assert not asked.exists()
    disk.write("/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\n")
    socket_path(str(disk.root))
    assert asked.exists()


@pytest.mark.parametrize(
    ("main", "expected"),
    [
        (812, False),
        (0, True),  # systemd runs none
        (1, True),  # a script that starts it
    ],
)
def test_the_kubelets_configuration_is_that_of_the_hosts_own(disk: Disk, main: int, expected: bool) -> None:
    """A container's process may be called kubelet, and name a file of its own: only systemd's counts, or kubeadm's."""
    disk.write("/sys/fs/cgroup/memory/tasks", "")
    disk.write("/var/lib/kubelet/config.yaml", "failCgroupV1: true\n")
    disk.write("/etc/kubernetes/kubelet-config.yaml", "failCgroupV1: false\n")
    disk.write("/nested.yaml", f"failCgroupV1: {str(not expected).lower()}\n")
    disk.write("/proc/1/cmdline", "/sbin/init\0")
    disk.write("/proc/20/cmdline", "kubelet\0--version\0")
    disk.write("/proc/30/cmdline", "/usr/bin/kubelet\0--config=/nested.yaml\0")
    if main == 812:
        disk.write("/proc/812/cmdline", "/usr/local/bin/kubelet\0--config=/etc/kubernetes/kubelet-config.yaml\0")
    disk.write("/proc/930/cmdline", "/usr/bin/kubelet\0--config=/nested.yaml\0")
    disk.write("/proc/940/cmdline", "kubelet\0--version\0")
    disk.write("/bin/systemctl", f"#!/bin/sh\necho {main}\n").chmod(0o755)
    disk.environment = {"PATH": str(disk.root / "bin")}
    assert disk.examine().cgroups == Cgroups(1, fail_v1=expected)


def test_ports_as_the_kernel_writes_them() -> None:
    """Single ones and ranges; an empty line is none."""
    assert ranges("22,6443-6445\n".strip()) == [[22, 22], [6443, 6445]]
    assert ranges("") == []


def test_secrets_of_generations_do_not_leave_the_host(disk: Disk) -> None:
    """What is read to be verified is not reported."""
    disk.capture(b"canary-value")
    assert "canary" not in disk.run(HOST, ["python3", "-I", "-"], program()).stdout


@pytest.mark.parametrize(
    ("servers", "here"),
    [
        ("https://192.0.2.7:2379,https://127.0.0.1:2379", True),
        ("https://[::1]:2379", True),
        ("https://localhost:2379", True),
        ("https://192.0.2.7:2379,https://[2001:db8::7]:2379", False),
        ("https://nowhere.invalid:2379", None),
        ("", None),  # no kube-apiserver is known
    ],
)
def test_a_service_is_the_clusters_etcd_where_kube_apiserver_names_this_host(
    disk: Disk, servers: str, here: bool | None
) -> None:
    """Beside an etcd elsewhere, or where that isn't known, a service of that name is nobody's: it isn't ours to start,
    and its data isn't the cluster's.
    """
    disk.write("/var/lib/etcd/member/snap/db", "data")
    tools = disk.root / "bin"
    tools.mkdir()
    (tools / "systemctl").write_text("#!/bin/sh\necho ActiveState=inactive\necho UnitFileState=enabled\n")
    (tools / "systemctl").chmod(0o755)
    disk.environment = {"PATH": str(tools)}
    if servers:
        disk.start_api_with(servers)
    found = disk.examine()
    assert (found.etcd.named_here if here is not None else isinstance(found.etcd.named_here, Unknown)) is (
        here is not False
    )
    assert (found.etcd_service is not None) is (here is True)
    assert not found.has_etcd


def test_generations_name_etcds_servers_too(disk: Disk) -> None:
    """After an adoption, kube-apiserver has no static pod but those that are made of its generations."""
    source = pod(
        containers=[{"name": "kube-apiserver", "image": "example/main:v1", "args": ["--etcd-servers=http://[::1]:2"]}]
    )
    origin = Origin("kube-apiserver-abc-x1", "uid-1", "controller-1", "abc", "4", "2026-01-01T00:00:00Z", "Deployment")
    disk.store.capture(made(source, Contents({})), Policy.API_AWAY, "", origin)
    assert disk.examine().etcd.named_here is True


@pytest.mark.parametrize(("text", "there"), [("spec: {containers: [{name: etcd}]}\n", True), ("\n", False)])
def test_a_manifest_of_etcd_without_flags_is_there(disk: Disk, text: str, there: bool) -> None:
    """Variables may say all. Advice to write it anew is for one that is gone, or that a full disk has emptied."""
    disk.write("/etc/kubernetes/manifests/etcd.yaml", text)
    assert (disk.examine().etcd.manifest, disk.examine().etcd.flags) == (there, {})


def test_etcds_manifest_data_and_backups(disk: Disk) -> None:
    """Present, empty and missing data are distinguished; the newest backup comes first; a silent etcd is unknown."""
    assert (disk.examine().etcd.manifest, disk.examine().etcd.data) == (False, "missing")
    disk.write("/etc/kubernetes/manifests/etcd.yaml", "\n".join(f"    - {flag}" for flag in FLAGS))
    (disk.root / "var/lib/etcd").mkdir(parents=True)
    old = disk.write("/var/backups/old.db", "x")
    os.utime(old, (1, 1))
    disk.write("/root/new.db", "xx")
    etcd = disk.examine().etcd
    assert (etcd.manifest, etcd.data, etcd.flags["name"]) == (True, "empty", "controller-1")
    assert [b.path for b in etcd.backups] == ["/root/new.db", "/var/backups/old.db"]
    assert not isinstance(etcd.server, EtcdServer)
    disk.write("/var/lib/etcd/member/snap/db", "x")
    assert disk.examine().etcd.data == "present"


def test_an_unreadable_workload_hides_no_other(disk: Disk) -> None:
    """A folder that can't be read is reported for its workload alone; kube-apiserver's generations are still known."""
    disk.start_runtime()
    disk.capture()
    broken = Workload("kube-system", "broken")
    disk.store.generations(broken).mkdir(parents=True)
    disk.store.manifest_path(broken).mkdir()
    facts = disk.examine()
    workload, other = facts.workload(), facts.workload(str(broken))
    assert workload is not None and workload.restorable is not None and workload.trouble == ""
    assert other is not None and "checkpointer/workloads/kube-system.broken can't be read" in other.trouble
    assert str(disk.root) not in other.trouble.partition(":")[0]


def test_keys_are_those_of_the_readable_workloads(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can't be read has no key in etcd that could be asked for; the others have."""
    disk.capture()
    disk.store.generations(Workload("kube-system", "broken")).mkdir(parents=True)
    real = Store.numbers

    def numbers(store: Store, workload: Workload) -> list[int]:
        if workload.name == "broken":
            raise OSError(errno.EIO, "Input/output error")
        return real(store, workload)

    monkeypatch.setattr(Store, "numbers", numbers)
    assert checkpoint_facts.stored_keys(disk.store) == ["/registry/deployments/kube-system/kube-apiserver"]


def test_etcd_is_asked_for_what_was_checkpointed(disk: Disk) -> None:
    """The keys are those of the workloads that own the pods, as kube-apiserver writes them; a damaged one has none."""
    disk.capture()
    disk.write("/etc/kubernetes/checkpointer/workloads/kube-system.broken/generations/1/generation.json", "{")
    assert checkpoint_facts.stored_keys(disk.store) == ["/registry/deployments/kube-system/kube-apiserver"]


@pytest.mark.parametrize(("counts", "has"), [((0, 0), False), ((0, 1), True)])
def test_one_workload_that_is_stored_is_a_cluster(counts: tuple[int, int], has: bool) -> None:
    """One may have been uninstalled; etcd without its data has none. etcd leaves a count of 0 out of its answer."""
    stored = dict(zip(("/a", "/b"), counts, strict=True))

    def ask(path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        count = stored[base64.b64decode(body["key"]).decode()]
        return 200, {"count": str(count)} if count else {}

    assert etcd_facts.has_any(ask, list(stored)) is has


def test_an_etcd_that_waits_for_the_others_is_told_from_a_silent_one(disk: Disk) -> None:
    """Started without a quorum it serves no clients; its metrics port gives the answer then."""

    class Monitor(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"health":"false","reason":"RAFT NO LEADER"}'
            self.send_response(503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Monitor) as monitor:
        threading.Thread(target=monitor.serve_forever, daemon=True).start()
        flags = [*FLAGS, f"--listen-metrics-urls=http://127.0.0.1:{monitor.server_port}"]
        disk.write("/etc/kubernetes/manifests/etcd.yaml", "\n".join(f"    - {flag}" for flag in flags))
        server = disk.examine().etcd.server
        monitor.shutdown()
    assert isinstance(server, EtcdServer)
    assert (server.healthy, server.said, server.leader) == (False, "RAFT NO LEADER", "")


def test_the_manifests_folder_may_be_gone(disk: Disk) -> None:
    """A folder that isn't there is an answer."""
    disk.store.manifests.rmdir()
    assert disk.examine().manifests == Manifests(False)


def test_the_clock_is_measured_within_the_round_trip(disk: Disk) -> None:
    """A host whose clock is three hours ahead of ours is seen so, give or take the round trip."""
    ticks = iter((1000.0, 1002.0))
    answer = json.loads(disk.run(HOST, ["python3", "-I", "-"], program()).stdout)
    hosts = FakeHosts()
    answer.update(taken=1000.0 + 3 * 3600, took=1.5)
    hosts.commands["python3"] = CommandResult(0, json.dumps(answer), "")
    clock = examine(hosts, HOST, lambda: next(ticks)).clock
    assert clock.offset == pytest.approx(3 * 3600 - 0.25)
    assert clock.error == pytest.approx(0.25)


def test_examining_changes_nothing(disk: Disk) -> None:
    """Not a file is written, and none is touched."""
    disk.start_runtime()
    disk.capture()

    def state() -> dict[str, Any]:
        return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in disk.root.rglob("*")}

    before = state()
    disk.examine()
    assert state() == before


def test_all_controllers_and_their_failures() -> None:
    """An unreachable controller, one without python3 and one whose answer can't be read each have the reason."""
    hosts = FakeHosts()
    names = ("controller-1", "controller-2", "controller-3")
    hosts.down = {"controller-1"}
    hosts.commands["python3"] = lambda host, command, stdin: (
        CommandResult(127, "", "sh: python3: not found") if host.name == "controller-2" else CommandResult(0, "{}", "")
    )
    controllers = tuple(Host(name, f"10.0.0.{name[-1]}") for name in names)
    cluster = Cluster(Path("/c"), Path("/c/kubeconfig"), "", Path("/c/hosts.yml"), controllers)
    seen = examine_all(hosts, cluster)
    assert [e.host.name for e in seen] == list(names)
    assert [e.facts for e in seen] == [None, None, None]
    assert "no answer" in seen[0].error
    assert "python3 can't be run" in seen[1].error
    assert "can't be parsed" in seen[2].error
    assert [e.host.name for e in examine_all(hosts, cluster, ("controller-2",))] == ["controller-2"]


def test_python_is_the_one_that_the_inventory_names() -> None:
    """Where it isn't there, it is named, and so is the variable."""
    hosts = FakeHosts()
    hosts.commands["/usr/bin/python3.11"] = CommandResult(127, "", "sh: /usr/bin/python3.11: not found")
    with pytest.raises(HostError, match=r"/usr/bin/python3\.11 can't be run") as caught:
        examine(hosts, replace(HOST, python="/usr/bin/python3.11"))
    assert "ansible_python_interpreter" in caught.value.remedy


def test_a_program_that_fails_is_told_with_its_last_words() -> None:
    """A traceback on the host is no answer."""
    hosts = FakeHosts()
    hosts.commands["python3"] = CommandResult(1, "", "Traceback:\nMemoryError: none left")
    with pytest.raises(
        HostError, match=r"controller-1: querying the machine failed with exit code 1: MemoryError: none left"
    ):
        examine(hosts, HOST)


def installed() -> list[str]:
    """This Python, and every other one from the oldest that is supported on that is here."""
    found = [sys.executable]
    for name in (shutil.which(f"python3.{minor}") for minor in range(8, 15)):
        # What is found may be a launcher of a version that isn't installed.
        asked = [name or "false", "-I", "-c", "import sys; print(sys.executable)"]
        found += subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    return sorted(set(found))


@pytest.mark.parametrize("python", installed())
def test_the_program_needs_nothing_but_a_bare_python(disk: Disk, python: str) -> None:
    """Without site packages and in an empty folder it finds the generation, and writes nothing."""
    disk.capture()
    (disk.root / "empty").mkdir()
    done = subprocess.run(
        [python, "-I", "-S", "-", str(disk.root)],
        input=program(),
        capture_output=True,
        env={"PATH": ""},
        cwd=disk.root / "empty",
        timeout=stretched(60),
        check=False,
    )
    assert done.stderr == b""
    ((generation,),) = (w["generations"] for w in json.loads(done.stdout)["workloads"])
    assert (generation["number"], generation["damage"]) == (1, "")
    assert not list((disk.root / "empty").iterdir())
