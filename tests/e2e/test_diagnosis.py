"""Diagnosis of a controller from its own facts: each cause is made on a real controller, found, and fixed.

No test here needs the API, and none may lose an intact generation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from testkit.lab_cluster import OLD, LabCluster, until
from upgrader.adapters.hosts import SshHosts
from upgrader.config.inventory import load_hosts
from upgrader.errors import ApiError
from upgrader.model.host_facts import EtcdServer, Examined, Unknown
from upgrader.recover.diagnosis.diagnose import Diagnosis, diagnose
from upgrader.recover.diagnosis.wrong_api import ApiSeen
from upgrader.recover.facts.collect import examine

_OWN = "/etc/kubernetes/checkpointer/workloads/kube-system.kube-apiserver/generations"


class Doctor:
    """Examines the cluster's only controller."""

    def __init__(self, cluster: LabCluster, hosts: SshHosts) -> None:
        self._cluster = cluster
        self._hosts = hosts
        self.host = load_hosts(cluster.folder / "hosts.yml")["controllers"][0]

    def examine(self, now: Callable[[], float] = time.time) -> Diagnosis:
        """One examination, and its findings."""
        return diagnose([Examined(self.host, examine(self._hosts, self.host, now))], self._api())

    def _api(self) -> ApiSeen:
        try:
            return ApiSeen(self._cluster.kube.raw("/readyz") == "ok")
        except ApiError as error:
            return ApiSeen(False, error.message)

    def sh(self, script: str) -> str:
        """A shell script on the controller, over SSH; its output."""
        return self._hosts.run(self.host, ["sh", "-ec", script], timeout_seconds=60.0).stdout

    def generations(self) -> set[tuple[str, str]]:
        """The intact generations of each workload: its name, and the digest of what would be started.

        Not the files, as a duplicate generation, made while another one was damaged, is removed again.
        """
        workloads = examine(self._hosts, self.host).workloads
        assert not isinstance(workloads, Unknown)
        return {(w.name, g.digest) for w in workloads for g in w.generations if g.intact}

    def wait(self, identity: str, *, timeout_seconds: float = 60.0) -> Diagnosis:
        """Examine until there is a finding with that ID."""
        seen: list[Diagnosis] = []

        def found() -> bool:
            seen.append(self.examine())
            return identity in _ids(seen[-1])

        until(identity, found, timeout_seconds=timeout_seconds)
        return seen[-1]


@pytest.fixture
def doctor(cluster: LabCluster) -> Iterator[Doctor]:
    """Before: there are no findings. After: the next test can run at once, and no intact generation is lost."""
    with SshHosts() as hosts:
        doctor = Doctor(cluster, hosts)
        before = doctor.generations()
        assert before
        assert _errors(doctor.examine()) == []
        yield doctor
        lost = before - doctor.generations()
        assert not lost, f"generations that are gone or damaged: {lost}"
        cluster.wait_until_settled(OLD)


def _ids(diagnosis: Diagnosis) -> list[str]:
    return [finding.id for finding in diagnosis.findings]


def _errors(diagnosis: Diagnosis) -> list[str]:
    return [finding.title for finding in diagnosis.findings if finding.severity == "error"]


@contextmanager
def broken(doctor: Doctor, breaks: str, fixes: str) -> Iterator[None]:
    """Break the controller with one script, and fix it with another, even if the test fails."""
    try:
        doctor.sh(breaks)
        yield
    finally:
        doctor.sh(fixes)


def test_image_gone(doctor: Doctor) -> None:
    """A generation whose image is missing on the node is reported with the image, and isn't offered for a restore."""
    image = f"registry.k8s.io/kube-apiserver:{OLD}"
    ctr = "ctr -n k8s.io images"
    # containerd knows it by name, and by ID for CRI: remove both. Another name protects the content from collection.
    breaks = f"""{ctr} tag --force {image} upgrader.test/kept:1
      digest=$({ctr} ls name=={image} | awk 'NR==2 {{print $3}}')
      for name in $({ctr} ls | awk -v d="$digest" '$3 == d && $1 != "upgrader.test/kept:1" {{print $1}}'); do
        echo "$name"; {ctr} rm "$name" > /dev/null
      done > /run/removed-names"""
    fixes = f"""for name in $(cat /run/removed-names); do {ctr} tag --force upgrader.test/kept:1 "$name"; done
      {ctr} rm upgrader.test/kept:1"""
    with broken(doctor, breaks, fixes):
        seen = doctor.wait("checkpoint.image-missing", timeout_seconds=15)
    found = next(f for f in seen.findings if f.id == "checkpoint.image-missing")
    assert "kube-apiserver" in found.title and image in found.title


def test_full_disk(doctor: Doctor) -> None:
    """A full file system is reported with its folder, and blocks a recovery, which would have to write there."""
    # A small file system with the folder's content, mounted over it: a real full disk, but not the machine's.
    breaks = """mkdir -p /run/small && mount -t tmpfs -o size=8m,mode=755 small /run/small
      cp -a /etc/kubernetes/. /run/small && mount --bind /run/small /etc/kubernetes
      dd if=/dev/zero of=/etc/kubernetes/fill bs=64k 2>/dev/null || true"""
    fixes = "umount /etc/kubernetes; umount /run/small; rmdir /run/small"
    with broken(doctor, breaks, fixes):
        seen = doctor.examine()
    assert [f.title for f in seen.findings if f.severity == "error"] == [
        "controller-1: the disk of /etc/kubernetes is full: 0 B of 8 MiB free"
    ]


def test_corrupted_checkpoint(doctor: Doctor) -> None:
    """A generation with one changed byte is reported with the file; the intact one is offered for a restore."""
    newest = doctor.sh(f"ls {_OWN} | sort -n | tail -1").strip()
    file = f"{_OWN}/{newest}/manifest.json"
    with broken(doctor, f"cp -a {file} /run/kept && printf ' ' >> {file}", f"cp -a /run/kept {file} && rm /run/kept"):
        seen = doctor.examine()
    damaged = [f.title for f in seen.findings if f.id == "checkpoint.damaged"]
    assert damaged == [
        f"controller-1: generation {newest} of kube-system/kube-apiserver is damaged: manifest.json was changed"
    ]
    facts = seen.controllers[0].facts
    workload = facts.workload() if facts else None
    assert workload is not None
    assert workload.restorable is None or workload.restorable.number != int(newest)


def test_clock_jump(doctor: Doctor) -> None:
    """A certificate that is valid by our clock and expired by the controller's is reported as a wrong clock.

    A lab's nodes have the machine's clock, which the test can't set. So the test examines with a clock that is three
    hours slow a controller whose certificate expired an hour ago by its own clock.
    """
    pki = "/etc/kubernetes/pki"
    certificate = _ending(doctor, datetime.now(UTC) - timedelta(hours=1))
    breaks = f"cp -a {pki}/apiserver.crt /run/kept && cat > {pki}/apiserver.crt <<'END'\n{certificate}END"
    with broken(doctor, breaks, f"cp -a /run/kept {pki}/apiserver.crt && rm /run/kept"):
        until("kube-apiserver to use it", lambda: not doctor.examine().controllers[0].serves, timeout_seconds=120)
        seen = doctor.examine(now=lambda: time.time() - 3 * 3600)
    assert _errors(seen)[0] == (
        "controller-1: the clock is 3 h ahead: /etc/kubernetes/pki/apiserver.crt is expired to it"
    )
    assert not any(f.id == "certificates.expired" for f in seen.findings)
    assert seen.controllers[0].blocked


def _ending(doctor: Doctor, end: datetime) -> str:
    """kube-apiserver's certificate from the same CA for the same key, with another expiry."""
    pki = "/etc/kubernetes/pki"
    ca = x509.load_pem_x509_certificate(doctor.sh(f"cat {pki}/ca.crt").encode())
    key = serialization.load_pem_private_key(doctor.sh(f"cat {pki}/ca.key").encode(), None)
    assert isinstance(key, RSAPrivateKey)
    own = x509.load_pem_x509_certificate(doctor.sh(f"cat {pki}/apiserver.crt").encode())
    made = (
        x509.CertificateBuilder(ca.subject, own.subject, own.public_key(), x509.random_serial_number())
        .not_valid_before(end - timedelta(days=30))
        .not_valid_after(end)
    )
    for extension in own.extensions:
        made = made.add_extension(extension.value, extension.critical)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def test_kubelet_down(doctor: Doctor) -> None:
    """A stopped kubelet is the only cause, with a start as its fix; running containers are not reported as broken."""
    with broken(doctor, "systemctl stop kubelet", "systemctl start kubelet"):
        seen = doctor.examine()
    assert [f.id for f in seen.findings if f.severity == "error"] == ["kubelet.down"]
    assert seen.controllers[0].start == ("kubelet",)
    assert seen.controllers[0].serves


def test_containerd_down(doctor: Doctor) -> None:
    """A stopped containerd is the only cause; its containers are unknown, and none is reported as missing."""
    with broken(doctor, "systemctl stop containerd", "systemctl start containerd"):
        seen = doctor.examine()
    assert [f.id for f in seen.findings if f.severity == "error"] == ["containerd.down"]
    assert seen.controllers[0].start == ("containerd",)
    facts = seen.controllers[0].facts
    assert facts is not None and isinstance(facts.containers, Unknown)


def test_manifests_deleted(doctor: Doctor, cluster: LabCluster) -> None:
    """Without the folder of static pods the kubelet stops etcd: the folder is the cause, not etcd or the API."""
    folder = "/etc/kubernetes/manifests"
    breaks = f"cp -a {folder} /run/kept && rm -r {folder}"
    fixes = f"mkdir -p -m 700 {folder} && cp -a /run/kept/. {folder} && rm -r /run/kept"

    def etcd_gone() -> bool:
        facts = doctor.examine().controllers[0].facts
        return facts is not None and not isinstance(facts.etcd.server, EtcdServer)

    with broken(doctor, breaks, fixes):
        until("the kubelet to end etcd", etcd_gone, timeout_seconds=120)
        seen = doctor.examine()
    # Before it starts a static pod the kubelet asks the API, which hangs for minutes without etcd.
    cluster.crash_and_boot()
    cluster.wait_after_boot()
    assert seen.findings[0].id == "manifests.missing"
    assert "etcd" in seen.findings[0].title + seen.findings[0].diagnosis
    assert "etcd.down" not in _ids(seen)
    assert "kubeadm init phase etcd local" in seen.findings[0].remedy
