"""Checks of controllers as machines: the program that is sent to them runs here, on folders that stand for their disks.

Small file systems are mounted for it, which needs root, as every lab does.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from testkit.faults.silent_disk import silent_disk
from testkit.pki import CertificateAuthority
from testkit.waiting import stretched
from upgrader.model.cluster import Cluster, Host
from upgrader.model.observed import Observed, ObservedRelease
from upgrader.model.release import Revision
from upgrader.model.version import KubernetesVersion
from upgrader.onhost.sending.collect import examine
from upgrader.onhost.sending.host_facts import Examined, HostFacts
from upgrader.ports import CommandResult
from upgrader.preflight.accept_queues import check_accept_queues
from upgrader.preflight.all_checks import Check, run_checks
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.controller_keys import check_keys
from upgrader.preflight.controller_machines import check_clocks, check_disks, check_ports

ONE, TWO = Host("controller-1", "127.0.0.1"), Host("controller-2", "127.0.0.1")
PKI = "etc/kubernetes/pki"


@dataclass
class Controllers:
    """Two controllers on this machine."""

    folder: Path
    ahead: dict[str, float] = field(default_factory=dict)
    """Controller → by how many seconds its clock is ahead."""
    ports: str = ""
    """What net.ipv4.ip_local_port_range is for them; "" for this machine's own."""
    migrate_req: str = ""
    """What net.ipv4.tcp_migrate_req is for them; "" for this machine's own."""
    releases: dict[str, ObservedRelease] = field(default_factory=dict)

    def write(self, host: Host, path: str, text: str) -> None:
        """A file of a controller."""
        file = self.folder / host.name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def ids(self, check: Check, *hosts: Host) -> list[str]:
        """What a check finds of them."""
        cluster = Cluster(Path(), Path(), "", Path(), hosts)
        version = KubernetesVersion(1, 37, 1)
        context = PreflightContext(
            FakeKube(),
            FakeHosts(),
            FakeHelm(),
            FakeClock(),
            cluster,
            version,
            Observed(version, {}, self.releases),
            300.0,
            examine=lambda: [Examined(host, self._examine(host)) for host in hosts],
        )
        return [item.id for item in run_checks(context, [("family", check)])]

    def _examine(self, host: Host) -> HostFacts:
        return examine(self._hosts(), host, lambda: time.time() - self.ahead.get(host.name, 0.0))

    def _hosts(self) -> FakeHosts:
        hosts = FakeHosts()
        hosts.commands["python3"] = self._run
        return hosts

    def _run(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        words = [sys.executable, *command[1:], str(self.folder / host.name)]
        settings = {"ip_local_port_range": self.ports, "tcp_migrate_req": self.migrate_req}
        if any(settings.values()):
            set_all = "".join(
                f"echo {value} > /proc/sys/net/ipv4/{name}; " for name, value in settings.items() if value
            )
            words = ["unshare", "--net", "sh", "-c", f'{set_all}exec "$@"', "sh", *words]
        done = subprocess.run(words, input=stdin, capture_output=True, check=False, timeout=stretched(60))
        return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def controllers(tmp_path: Path) -> Controllers:
    """Healthy ones."""
    for host in (ONE, TWO):
        (tmp_path / host.name / "etc").mkdir(parents=True)
    return Controllers(tmp_path)


@contextmanager
def mounted(place: Path, options: str) -> Iterator[None]:
    """A file system in memory."""
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize(
    ("options", "megabytes", "expected"),
    [
        ("size=1g", 0, []),
        ("size=100m", 90, ["disks.full"]),
        ("size=1g", 900, ["disks.scarce"]),
        ("size=1g,nr_inodes=20", 0, ["disks.no-inodes"]),
        ("size=1g,ro", 0, ["disks.read-only"]),
    ],
)
def test_disk_of_etcd(controllers: Controllers, options: str, megabytes: int, expected: list[str]) -> None:
    """A file system of its own, as the kernel reports it. This machine's own is not judged here."""
    place = controllers.folder / ONE.name / "var/lib/etcd"
    own = controllers.ids(check_disks, ONE)
    with mounted(place, options):
        if megabytes:
            subprocess.run(["fallocate", "-l", f"{megabytes}M", str(place / "db")], check=True)
        found = controllers.ids(check_disks, ONE)
    assert found == [*own, *expected] or found == [*expected, *own]


def test_disk_that_does_not_tell_its_space(controllers: Controllers) -> None:
    """A folder is there, and the kernel can't say how much space is left in it."""
    assert "disks.unread" not in controllers.ids(check_disks, ONE)
    with silent_disk(controllers.folder / ONE.name / "var/lib/etcd"):
        assert "disks.unread" in controllers.ids(check_disks, ONE)


def test_clock_that_is_off(controllers: Controllers) -> None:
    """From this machine's, or from that of another controller."""
    assert controllers.ids(check_clocks, ONE, TWO) == []
    controllers.ahead = {ONE.name: 8.0}
    assert controllers.ids(check_clocks, ONE, TWO) == ["clocks.apart"]
    controllers.ahead = {ONE.name: 120.0, TWO.name: 120.0}
    assert controllers.ids(check_clocks, ONE, TWO) == ["clocks.off", "clocks.off"]


def test_ports_of_outgoing_connections(controllers: Controllers) -> None:
    """As the kernel has them for the controller's network."""
    controllers.ports = "32768 60999"
    assert controllers.ids(check_ports, ONE) == []
    controllers.ports = "1024 65535"
    assert controllers.ids(check_ports, ONE) == ["ports.ephemeral"]


def test_queues_of_listeners_that_close(controllers: Controllers) -> None:
    """As the kernel has the sysctl for the controller's network, and as a timeout leaves it unknown."""
    controllers.releases["kube-apiserver"] = ObservedRelease((Revision(1, "deployed", "1.36.3"),), "")
    controllers.migrate_req = "1"
    assert controllers.ids(check_accept_queues, ONE) == []
    controllers.migrate_req = "0"
    assert controllers.ids(check_accept_queues, ONE) == ["accept-queues.dropped"]
    controllers.write(ONE, f"{PKI}/sa.pub/a-folder", "")
    assert controllers.ids(check_accept_queues, ONE) == ["accept-queues.unread"]


def test_keys_of_two_controllers(controllers: Controllers) -> None:
    """The same files everywhere are no finding; one that differs is, and so is what another CA has issued."""
    ca, other = CertificateAuthority.named("kubernetes"), CertificateAuthority.named("kubernetes")
    for host in (ONE, TWO):
        controllers.write(host, f"{PKI}/ca.crt", ca.pem)
        controllers.write(host, f"{PKI}/apiserver.crt", ca.issue("kube-apiserver"))
        controllers.write(host, f"{PKI}/sa.key", "the same key")
    both = partial(controllers.ids, check_keys, ONE, TWO)
    assert both() == []
    controllers.write(TWO, f"{PKI}/sa.key", "another key")
    assert both() == ["keys.differ"]
    controllers.write(TWO, f"{PKI}/sa.key", "the same key")
    controllers.write(TWO, f"{PKI}/ca.crt", other.pem)
    assert both() == ["keys.differ", "keys.other-issuer"]
