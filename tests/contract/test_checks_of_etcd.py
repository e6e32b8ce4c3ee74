"""Checks of etcd on a real etcd of three members, asked with the program that is sent to controllers."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.certificates import Authority
from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from testkit.lab_cluster import until
from upgrader.lab.binaries import Binaries
from upgrader.lab.progress_port import Silent
from upgrader.model.cluster import Cluster, Host
from upgrader.model.observed import Observed
from upgrader.model.plan import Plan, PlannedRelease
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.ports import CommandResult
from upgrader.preflight.all_checks import Check, run_checks
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.etcd_members import check_etcd_members
from upgrader.preflight.planned_etcd import check_planned_etcd
from upgrader.recover.facts.collect import examine_all
from upgrader.recover.facts.etcd_answers import ask_etcd

NAMES = ("controller-1", "controller-2", "controller-3")
VERSION = KubernetesVersion(1, 37, 1)


@dataclass
class Etcd:
    """Members on this machine, and a folder for each that stands for its controller's disk."""

    folder: Path
    programs: Path
    members: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)

    def start(self, *names: str, flags: Sequence[str] = ()) -> None:
        """Start a cluster of these members, and wait until each is healthy."""
        ports = {name: (_free_port(), _free_port()) for name in names}
        cluster = ",".join(f"{name}=http://127.0.0.1:{peer}" for name, (_, peer) in ports.items())
        for name, (client, peer) in ports.items():
            self.urls[name] = f"https://127.0.0.1:{client}"
            self._disk(name)
            command = [
                str(self.programs / "etcd"),
                f"--name={name}",
                f"--data-dir={self.folder / name}.data",
                f"--listen-client-urls={self.urls[name]}",
                f"--advertise-client-urls={self.urls[name]}",
                f"--listen-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-cluster={cluster}",
                f"--cert-file={self.folder / 'server.pem'}",
                f"--key-file={self.folder / 'server.key'}",
                f"--trusted-ca-file={self.folder / 'ca.pem'}",
                "--client-cert-auth",
                *flags,
            ]
            with (self.folder / f"{name}.log").open("wb") as log:
                self.members[name] = subprocess.Popen(command, stdout=log, stderr=log)
        for name in names:
            until(f"{name} to be healthy", partial(self._healthy, name), timeout_seconds=60)

    def _disk(self, name: str) -> None:
        pki = self.folder / name / "etc/kubernetes/pki/etcd"
        pki.mkdir(parents=True)
        for source, target in (("ca.pem", "ca.crt"), ("client.pem", "healthcheck-client.crt"), ("client.key", None)):
            (pki / (target or "healthcheck-client.key")).symlink_to(self.folder / source)
        manifest = self.folder / name / "etc/kubernetes/manifests/etcd.yaml"
        manifest.parent.mkdir()
        manifest.write_text(f"    - --listen-client-urls={self.urls[name]}\n    - --name={name}\n")

    def ctl(self, name: str, *words: str, stdin: bytes = b"", check: bool = True) -> str:
        """What etcdctl prints, asking that member."""
        files = [f"--{flag}={self.folder / file}" for flag, file in FILES.items()]
        command = [str(self.programs / "etcdctl"), f"--endpoints={self.urls[name]}", *files, *words]
        done = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=60)
        assert done.returncode == 0 or not check, done.stderr.decode()
        return done.stdout.decode()

    def _healthy(self, name: str) -> bool:
        return "is healthy" in self.ctl(name, "endpoint", "health", check=False)

    def stop(self) -> None:
        """End all members."""
        for member in self.members.values():
            member.kill()
            member.wait()

    def run(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        """What SSH to a controller would do."""
        words = command[1:] if len(command) > 3 else [*command[1:], str(self.folder / host.name)]
        done = subprocess.run([sys.executable, *words], input=stdin, capture_output=True, check=False, timeout=60)
        return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())

    def ids(self, check: Check, *controllers: str, manifest: str = "") -> list[str]:
        """What a check finds where these are the controllers."""
        hosts = FakeHosts()
        hosts.commands["python3"] = self.run
        cluster = Cluster(Path(), Path(), "", Path(), tuple(Host(name, "127.0.0.1") for name in controllers))
        steps = (PlannedRelease(ReleaseSpec("kube-apiserver", "kube-system", Path()), "upgrade", "", "", manifest, ()),)
        context = PreflightContext(
            FakeKube(), hosts, FakeHelm(), FakeClock(), cluster, VERSION, Observed(VERSION, {}, {}), 300.0
        )
        context = replace(
            context,
            plan=Plan(VERSION, VERSION, steps if manifest else ()),
            examine=partial(examine_all, hosts, cluster),
            ask_etcd=partial(ask_etcd, hosts),
        )
        return sorted(item.id for item in run_checks(context, [("family", check)]))


FILES = {"cacert": "ca.pem", "cert": "client.pem", "key": "client.key"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def new_etcd(tmp_path: Path) -> Iterator[Callable[..., Etcd]]:
    """Starts an etcd, which is ended after the test."""
    authority = Authority(tmp_path / "ca")
    for name in ("server", "client"):
        authority.issue(tmp_path / name, name)
    etcd = Etcd(tmp_path, Binaries(Silent()).etcd())

    def start(*names: str, flags: Sequence[str] = ()) -> Etcd:
        etcd.start(*names, flags=flags)
        return etcd

    try:
        yield start
    finally:
        etcd.stop()


def test_members_that_are_the_controllers(new_etcd: Callable[..., Etcd]) -> None:
    """Three healthy members are no finding; one that is no controller is, and a controller without a member."""
    etcd = new_etcd(*NAMES)
    assert etcd.ids(check_etcd_members, *NAMES) == []
    without = etcd.ids(check_etcd_members, *NAMES[:2])
    assert without == ["etcd-members.astray", "etcd-members.no-spare"]
    (etcd.folder / "controller-4").mkdir()
    assert etcd.ids(check_etcd_members, *NAMES, "controller-4") == ["etcd-members.missing"]
    assert etcd.ids(check_etcd_members, "controller-4") == ["etcd-members.elsewhere"]


def test_member_that_is_down(new_etcd: Callable[..., Etcd]) -> None:
    """It doesn't answer, and the other two have no spare."""
    etcd = new_etcd(*NAMES)
    assert etcd.ids(check_etcd_members, *NAMES) == []
    etcd.members[NAMES[2]].kill()
    etcd.members[NAMES[2]].wait()
    assert etcd.ids(check_etcd_members, *NAMES) == ["etcd-members.no-spare", "etcd-members.unread"]


def test_member_that_never_joined(new_etcd: Callable[..., Etcd]) -> None:
    """etcd lists it without a name from the moment that it was added; removed, it is no finding any more."""
    etcd = new_etcd(NAMES[0])
    assert etcd.ids(check_etcd_members, NAMES[0]) == []
    said = etcd.ctl(NAMES[0], "member", "add", "late", "--learner", f"--peer-urls=http://127.0.0.1:{_free_port()}")
    assert etcd.ids(check_etcd_members, NAMES[0]) == ["etcd-members.astray", "etcd-members.learner"]
    etcd.ctl(NAMES[0], "member", "remove", said.split()[1])
    assert etcd.ids(check_etcd_members, NAMES[0]) == []


def test_database_at_its_quota(new_etcd: Callable[..., Etcd]) -> None:
    """First it is nearly full; then etcd itself raises the alarm, and refuses every write."""
    etcd = new_etcd(NAMES[0], flags=["--quota-backend-bytes=4194304"])
    assert etcd.ids(check_etcd_members, NAMES[0]) == []
    seen: set[str] = set()
    for number in range(40):
        if not etcd.ctl(NAMES[0], "put", f"key-{number}", stdin=b"x" * 200_000, check=False):
            break
        seen |= set(etcd.ids(check_etcd_members, NAMES[0])) if number > 10 else set()
    assert etcd.ids(check_etcd_members, NAMES[0]) == ["etcd-members.nearly-full", "etcd.alarm"]
    assert seen <= {"etcd-members.nearly-full"}


def test_database_with_holes(new_etcd: Callable[..., Etcd]) -> None:
    """What was deleted and compacted leaves room that only a defragmentation gives back."""
    etcd = new_etcd(NAMES[0])
    for number in range(110):
        etcd.ctl(NAMES[0], "put", f"key-{number}", stdin=b"x" * 1_000_000)
    assert etcd.ids(check_etcd_members, NAMES[0]) == []
    etcd.ctl(NAMES[0], "del", "", "--prefix")
    revision = yaml.safe_load(etcd.ctl(NAMES[0], "endpoint", "status", "-w", "json"))[0]["Status"]["header"]["revision"]
    etcd.ctl(NAMES[0], "compaction", str(revision), "--physical")
    until(
        "the holes to be counted",
        lambda: etcd.ids(check_etcd_members, NAMES[0]) == ["etcd-members.fragmented"],
        timeout_seconds=30,
    )
    etcd.ctl(NAMES[0], "defrag")
    assert etcd.ids(check_etcd_members, NAMES[0]) == []


def test_planned_addresses(new_etcd: Callable[..., Etcd]) -> None:
    """Where it answers, nothing is found; at another port nobody does, and without the files nobody is asked."""
    etcd = new_etcd(NAMES[0])
    right, wrong = etcd.urls[NAMES[0]], f"https://127.0.0.1:{_free_port()}"

    def planned(*servers: str, certificate: str = "client.pem") -> list[str]:
        files = {"cafile": "ca.pem", "certfile": certificate, "keyfile": "client.key"}
        flags = [f"--etcd-{flag}={etcd.folder / file}" for flag, file in files.items()]
        container: dict[str, Any] = {
            "name": "kube-apiserver",
            "command": ["kube-apiserver", f"--etcd-servers={','.join(servers)}", *flags],
        }
        item = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "kube-apiserver", "namespace": "kube-system"},
            "spec": {"template": {"spec": {"containers": [container]}}},
        }
        return etcd.ids(check_planned_etcd, NAMES[0], manifest=yaml.safe_dump(item))

    assert planned(right) == []
    assert planned(wrong) == ["planned-etcd.unanswered"]
    assert planned(right, certificate="server-of-nobody.pem") == ["planned-etcd.unread"]
