"""Diagnosis of a controller from its own facts: each cause is made on a real controller, found, and fixed.

No test here needs the API, and none may lose an intact generation.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from testkit.doctor import Doctor, broken, errors, examining
from testkit.lab_cluster import OLD, LabCluster, until
from upgrader.onhost.sending.host_facts import Unknown

_OWN = "/etc/kubernetes/checkpointer/workloads/kube-system.kube-apiserver/generations"


@pytest.fixture
def doctor(cluster: LabCluster) -> Iterator[Doctor]:
    """See `examining`."""
    with examining(cluster) as doctor:
        yield doctor


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
    assert errors(seen)[0] == (
        "controller-1: the clock is 3 h ahead: by this clock, /etc/kubernetes/pki/apiserver.crt is expired"
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
