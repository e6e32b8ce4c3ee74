"""The script that reads a controller's certificates, run for real on files like those that people have."""

from __future__ import annotations

import base64
import subprocess
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from testkit.fakes.hosts import FakeHosts
from testkit.pki import CertificateAuthority, encoded, printed
from upgrader.errors import HostError
from upgrader.model.certificate_file import CertificateFile, UnreadableCertificate
from upgrader.model.cluster import Host
from upgrader.onhost.certificates.renewed_by_kubeadm import KNOWN, files_of
from upgrader.ports import CommandResult
from upgrader.preflight.certificate_files import read_certificates

KEY = "-----BEGIN EC PRIVATE KEY-----\nSECRET\n-----END EC PRIVATE KEY-----\n"
HOST = Host("controller-1", "10.0.0.1")


class Controller:
    """A controller's /etc/kubernetes and /var/lib/kubelet, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.printed = ""

    def put(self, path: str, text: str | bytes) -> None:
        """Write a file."""
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())

    def read(self, *before: str) -> tuple[CertificateFile | UnreadableCertificate, ...]:
        """What the script finds; `before` goes before its shell."""

        def sh(_: Host, command: Sequence[str], __: bytes) -> CommandResult:
            script = command[-1].replace("/etc/kubernetes", str(self._folder / "etc"))
            script = script.replace("/var/lib/kubelet", str(self._folder / "kubelet"))
            done = subprocess.run([*before, "sh", "-c", script], capture_output=True, text=True, check=True)
            self.printed = done.stdout
            return CommandResult(0, done.stdout, done.stderr)

        hosts = FakeHosts()
        hosts.commands["sh"] = sh
        return read_certificates(hosts, HOST)

    def subjects(self) -> list[tuple[str, str]]:
        """Of each certificate, its file's name and its subject; where it can't be read, "?"."""
        return [(Path(item.path).name, getattr(item, "subject", "?").removeprefix("CN=")) for item in self.read()]


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    """One without any file."""
    return Controller(tmp_path)


@pytest.fixture(scope="module")
def ca() -> CertificateAuthority:
    """Who issues."""
    return CertificateAuthority.named("kubernetes")


def test_no_key_leaves_the_controller(controller: Controller, ca: CertificateAuthority) -> None:
    """Before a certificate, behind one, behind one that was cut short, and in a kubeconfig."""
    pem = ca.issue("x")
    controller.put("etc/pki/before.crt", KEY + pem)
    controller.put("etc/pki/cut.crt", pem.partition("-----END")[0] + KEY)
    controller.put("kubelet/pki/kubelet-client-current.pem", pem + KEY)
    controller.put(
        "etc/admin.conf", f"client-certificate-data: {encoded(pem + KEY)}\nclient-key-data: {encoded(KEY)}\n"
    )
    controller.put("etc/kubelet.conf", "client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem\n")
    assert controller.subjects() == [
        ("before.crt", "x"),
        ("cut.crt", "?"),
        ("kubelet-client-current.pem", "x"),
        ("admin.conf", "x"),
    ]
    sent = " ".join(base64.b64decode(word).decode() for word in controller.printed.split()[2::3])
    assert "SECRET" not in sent and "PRIVATE" not in sent


def test_what_a_login_shell_prints_is_no_certificate(ca: CertificateAuthority) -> None:
    """An `echo` in .bashrc is passed over; a line that looks like ours, and isn't, makes all of it unknown."""
    hosts = FakeHosts()
    hosts.commands["sh"] = CommandResult(0, "Welcome\n\n" + printed({"pki/ca.crt": ca.pem}), "")
    assert [item.path for item in read_certificates(hosts, HOST)] == ["/etc/kubernetes/pki/ca.crt"]
    for line in ("certificate of excellence", "certificate", "forbidden area!"):
        hosts.commands["sh"] = CommandResult(0, f"{line}\n", "")
        with pytest.raises(HostError, match=r"controller-1: the list of its certificates can't be read"):
            read_certificates(hosts, HOST)


def test_names_and_text_may_be_anything(controller: Controller, ca: CertificateAuthority) -> None:
    """A file's name, or the text around its certificate, can't be taken for another file."""
    controller.put("etc/pki/a file b\nfile c.crt", "file /etc/kubernetes/pki/ca.crt\n" + ca.issue("x"))
    assert controller.subjects() == [("a file b\nfile c.crt", "x")]


@pytest.mark.parametrize("manifest", ["manifests/kube-apiserver.yaml", "upgrader/adopted/kube-apiserver.yaml"])
def test_certificates_in_another_folder(
    controller: Controller, ca: CertificateAuthority, tmp_path: Path, manifest: str
) -> None:
    """kubeadm's `certificatesDir`: the manifests name it, also once they were adopted; nothing expires unseen there."""
    elsewhere = tmp_path / "srv/pki"
    for name in ("apiserver", "etcd/server", "ca"):
        controller.put(f"srv/pki/{name}.crt", ca.issue(name.partition("/")[2] or name))
    flags = f"    - --tls-cert-file={elsewhere}/apiserver.crt\n    - --cert-file={elsewhere}/etcd/server.crt\n"
    controller.put(f"etc/{manifest}", f"{flags}    - --tls-private-key-file={elsewhere}/apiserver.key\n")
    assert sorted(controller.subjects()) == [("apiserver.crt", "apiserver"), ("ca.crt", "ca"), ("server.crt", "server")]


def test_what_kubeadm_renews_in_another_folder(
    controller: Controller, ca: CertificateAuthority, tmp_path: Path
) -> None:
    """Its names count below its `certificatesDir` alone: elsewhere, other tools have files of these names, too."""
    kubeadms, others = tmp_path / "srv/pki", tmp_path / "srv/etcd"
    for path in ("srv/pki/apiserver.crt", "srv/pki/etcd/peer.crt", "srv/etcd/peer.crt", "etc/pki/apiserver.crt"):
        controller.put(path, ca.issue("x"))
    flags = (f"kubelet-client-certificate={kubeadms}/apiserver-kubelet-client.crt", f"cert-file={kubeadms}/etcd/s.crt")
    lines = (*flags, f"peer-cert-file={others}/peer.crt")
    controller.put("etc/manifests/kube-apiserver.yaml", "".join(f"    - --{each}\n" for each in lines))
    keepers = {item.path: item.keeper for item in controller.read() if isinstance(item, CertificateFile)}
    assert keepers == {
        f"{kubeadms}/apiserver.crt": "kubeadm",
        f"{kubeadms}/etcd/peer.crt": "kubeadm",
        f"{others}/peer.crt": "unknown",
        f"{tmp_path}/etc/pki/apiserver.crt": "unknown",
    }


def test_what_is_renewed_on_a_controller_is_what_is_said_to_be() -> None:
    """The program that runs on a controller can't import the model: each has kubeadm's certificates."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    for name in KNOWN:
        path = files_of(name, "/etc/kubernetes", "/srv/pki")[-1]
        known = CertificateFile("c", path, "CN=x", "CN=ca", now, now, authority=False, folder="/srv/pki")
        assert known.keeper == "kubeadm", path


def test_folder_that_is_the_usual_one_by_a_link_is_read_once(
    controller: Controller, ca: CertificateAuthority, tmp_path: Path
) -> None:
    """As Kubespray has it: /etc/kubernetes/pki leads to /etc/kubernetes/ssl, which the flags name."""
    controller.put("etc/ssl/apiserver.crt", ca.issue("apiserver"))
    (tmp_path / "etc/pki").symlink_to(tmp_path / "etc/ssl")
    flags = ("tls-cert-file", "apiserver.crt"), ("kubelet-client-certificate", "apiserver-kubelet-client.crt")
    lines = "".join(f"- --{flag}={tmp_path}/etc/ssl/{name}\n" for flag, name in flags)
    controller.put("etc/manifests/kube-apiserver.yaml", lines)
    assert controller.subjects() == [("apiserver.crt", "apiserver")]
    assert "certificates-folder" not in controller.printed, "it is renewed below /etc/kubernetes/pki"


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_every_user_of_a_kubeconfig(controller: Controller, ca: CertificateAuthority, quote: str) -> None:
    """Each has a certificate of its own, quoted or not; one without any has none, nor has a comment."""
    users = "".join(f"    client-certificate-data: {quote}{encoded(ca.issue(name))}{quote}\r\n" for name in ("a", "b"))
    comment = f"# client-certificate-data: {encoded(ca.issue('old'))}\n"
    controller.put("etc/admin.conf", f'{comment}users:\n{users}    client-certificate-data: ""\n')
    assert controller.subjects() == [("admin.conf", "a"), ("admin.conf", "b")]


def test_kubeconfig_as_json(controller: Controller, ca: CertificateAuthority) -> None:
    """JSON is YAML too, in one line or in many."""
    user = f'{{"client-certificate-data":"{encoded(ca.issue("a"))}","client-key-data":"x"}}'
    controller.put("etc/admin.conf", f'{{"users":[{{"user":{user}}},{{"user":{user}}}]}}')
    assert controller.subjects() == [("admin.conf", "a")] * 2


def test_certificate_of_a_version_that_does_not_exist(controller: Controller, ca: CertificateAuthority) -> None:
    """It is unknown when that ends, and the others are read."""
    der = x509.load_pem_x509_certificate(ca.issue("x").encode()).public_bytes(serialization.Encoding.DER)
    text = base64.encodebytes(der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x09", 1)).decode()
    controller.put("etc/pki/odd.crt", f"-----BEGIN CERTIFICATE-----\n{text}-----END CERTIFICATE-----\n")
    controller.put("etc/pki/well.crt", ca.issue("x"))
    assert controller.subjects() == [("odd.crt", "?"), ("well.crt", "x")]


def test_names_and_extensions_that_can_not_be_read_hide_no_end(controller: Controller) -> None:
    """The dates are what matters."""
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "odd-name")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, begin + timedelta(days=1))
    extension = x509.UnrecognizedExtension(x509.BasicConstraints.oid, b"garbage")
    odd = builder.add_extension(extension, critical=False).sign(key, hashes.SHA256())
    der = odd.public_bytes(serialization.Encoding.DER).replace(b"odd-name", b"odd\xff\xfeame")
    text = base64.encodebytes(der).decode()
    controller.put("etc/pki/odd.crt", f"-----BEGIN CERTIFICATE-----\n{text}-----END CERTIFICATE-----\n")
    (found,) = controller.read()
    assert isinstance(found, CertificateFile)
    assert (found.not_after, found.subject) == (begin + timedelta(days=1), "unreadable")


def test_files_that_are_forbidden_are_unknown(ca: CertificateAuthority) -> None:
    """A user without sudo doesn't take what it can't read for what isn't there; neither does a link into nowhere."""
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are root's alone
        folder = Path(name)
        controller = Controller(folder)
        controller.put("etc/pki/ca.crt", ca.pem)
        controller.put("etc/pki/etcd/server.crt", ca.pem)
        controller.put("etc/admin.conf", "")
        (folder / "etc/pki/gone.crt").symlink_to("nowhere")
        folder.chmod(0o755)
        (folder / "etc/admin.conf").chmod(0o600)
        (folder / "etc/pki/etcd").chmod(0o700)
        found = controller.read("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    unreadable = {Path(item.path).name for item in found if isinstance(item, UnreadableCertificate)}
    assert unreadable == {"admin.conf", "etcd", "gone.crt"}
    assert [Path(item.path).name for item in found if isinstance(item, CertificateFile)] == ["ca.crt"]
