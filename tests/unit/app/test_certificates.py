"""`upgrader certs show`: every controller's certificates, and what could not be read."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from testkit.fakes.hosts import FakeHosts
from testkit.pki import CertificateAuthority, printed
from upgrader.app.certificates import ShownCertificates, read_all
from upgrader.cli.ui.certificates import print_certificates
from upgrader.errors import HostError, HostUnreachable
from upgrader.model.certificate_file import CertificateFile
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult

NOW = datetime(2026, 11, 1, tzinfo=UTC)
ONE, TWO = Host("controller-1", "10.0.0.1"), Host("controller-2", "10.0.0.2")


def hosts(**files: str) -> FakeHosts:
    """Controllers whose files have these certificates; `__` stands for a slash."""
    found = FakeHosts()
    output = printed({name.replace("__", "/"): text for name, text in files.items()})
    found.commands["sh"] = CommandResult(0, output, "")
    return found


def file(path: str, left: timedelta, *, host: str = "controller-1", authority: bool = False) -> CertificateFile:
    """A certificate that has so much time left."""
    return CertificateFile(host, path, "CN=a", "CN=b", NOW - timedelta(days=1), NOW + left, authority)


def test_what_files_have() -> None:
    """Subject, issuer and who renews it: kubeadm, the kubelet by itself, nobody (a CA), or nobody that is known."""
    ca = CertificateAuthority.named("kubernetes")
    found = read_all(
        hosts(
            **{"pki__ca.crt": ca.pem, "admin.conf": ca.issue("admin"), "mine.conf": ca.issue("me")},
            __var__lib__kubelet__pki__x=ca.issue("node"),
        ),
        (ONE,),
        NOW,
    )
    seen = {item.path: (item.subject.split(",")[-1], item.issuer, item.keeper) for item in found.files}
    assert {path: (issuer, keeper) for path, (_, issuer, keeper) in seen.items()} == {
        "/etc/kubernetes/pki/ca.crt": ("CN=kubernetes", "nobody"),
        "/etc/kubernetes/admin.conf": ("CN=kubernetes", "kubeadm"),
        "/etc/kubernetes/mine.conf": ("CN=kubernetes", "unknown"),
        "/var/lib/kubelet/pki/x": ("CN=kubernetes", "kubelet"),
    }
    found.refuse_if_incomplete()


def test_controller_that_is_unreachable_hides_no_other() -> None:
    """The others' certificates are shown, and the command fails with that controller's name."""
    found_hosts = hosts(pki__ca=CertificateAuthority.named("kubernetes").pem)
    found_hosts.down.add(ONE.name)
    found = read_all(found_hosts, (ONE, TWO), NOW)
    assert [item.host for item in found.files] == [TWO.name]
    with pytest.raises(HostUnreachable, match=r"controller-1 .*no answer"):
        found.refuse_if_incomplete()


def test_everything_that_could_not_be_read_is_said() -> None:
    """A controller that doesn't answer hides no file of another one."""
    found_hosts = hosts(pki__ca="garbage")
    found_hosts.down.add(ONE.name)
    with pytest.raises(HostUnreachable, match=r"(?s)controller-1 .*no answer.*controller-2: /etc/kubernetes/pki/ca: "):
        read_all(found_hosts, (ONE, TWO), NOW).refuse_if_incomplete()


def test_garbage_is_unknown() -> None:
    """A file without a certificate, and a controller without any file, are no certificates that last."""
    with pytest.raises(HostError, match=r"controller-1: /etc/kubernetes/pki/ca: "):
        read_all(hosts(pki__ca="garbage"), (ONE,), NOW).refuse_if_incomplete()
    with pytest.raises(HostError, match=r"controller-1: no certificate in /etc/kubernetes"):
        read_all(hosts(), (ONE,), NOW).refuse_if_incomplete()


def test_extension_that_can_not_be_read_hides_no_end() -> None:
    """The dates are what matters; who issued it is a guess then."""
    pem = CertificateAuthority.named("odd").issue("x")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.load_pem_x509_certificate(pem.encode()).subject
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, NOW, NOW + timedelta(days=1))
    broken = x509.UnrecognizedExtension(x509.BasicConstraints.oid, b"garbage")
    odd = builder.add_extension(broken, critical=False).sign(key, hashes.SHA256())
    text = odd.public_bytes(serialization.Encoding.PEM).decode()
    (found,) = read_all(hosts(pki__odd=text), (ONE,), NOW).files
    assert found.not_after == NOW + timedelta(days=1) and found.authority


def test_table() -> None:
    """What has expired, is left in days or hours, or isn't valid yet, is said in words."""
    late = CertificateFile("controller-1", "/d", "", "", NOW + timedelta(hours=1), NOW + timedelta(days=9), False)
    files = (
        file("/a", -timedelta(days=3)),
        file("/b", timedelta(hours=5, minutes=7)),
        file("/c", timedelta(days=364, hours=5), authority=True),
        late,
    )
    out = io.StringIO()
    print_certificates(ShownCertificates(NOW, files, (), ()), out)
    lines = [line.split(maxsplit=3) for line in out.getvalue().splitlines()]
    assert [line[3].split("  ")[0] for line in lines[1:]] == ["expired", "5 h 07 min", "364 d", "not yet valid"]
    assert "not renewed (a CA)" in out.getvalue()
