"""Which certificate is served at an address, asked as a controller asks itself."""

from __future__ import annotations

import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testkit.certificates import Authority
from testkit.waiting import stretched
from upgrader.onhost.certificates.served import served


@contextmanager
def serving(certificate: Path, key: Path, *, clients: Path | None = None) -> Iterator[int]:
    """A TLS server at 127.0.0.1; with `clients`, it asks for their certificates, as etcd does."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    if clients:
        tls.load_verify_locations(clients)
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.maximum_version = ssl.TLSVersion.TLSv1_2  # a refusal is part of the handshake there
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            while True:
                try:
                    taken, _ = listener.accept()
                    tls.wrap_socket(taken, server_side=True).close()
                except ssl.SSLError:
                    continue
                except OSError:
                    return

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(stretched(5))


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    """A CA with two certificates for the same name."""
    authority = Authority(tmp_path / "ca")
    for name in ("old", "new"):
        authority.issue(tmp_path / name, "kube-apiserver")
    return tmp_path


def test_old_certificate_is_another_one(pki: Path) -> None:
    """Byte for byte: both are valid, and of the same name."""
    no_etcd = str(pki / "etcd.yaml")
    with serving(pki / "old.pem", pki / "old.key") as port:
        assert served("127.0.0.1", str(port), str(pki / "old.pem"), no_etcd) == {"others": []}
        (line,) = served("127.0.0.1", str(port), str(pki / "new.pem"), no_etcd)["others"]
    assert line == f"kube-apiserver at 127.0.0.1:{port}: it doesn't serve the certificate in {pki}/new.pem"


def test_etcd_is_asked_where_its_manifest_listens(pki: Path) -> None:
    """For clients and for peers, with a client's certificate, without which it wouldn't answer."""
    shutil.copy(pki / "old.pem", pki / "server.crt")
    shutil.copy(pki / "old.key", pki / "server.key")
    with serving(pki / "old.pem", pki / "old.key", clients=pki / "ca.pem") as port:
        manifest = pki / "etcd.yaml"
        manifest.write_text(
            f"    - --cert-file={pki}/server.crt\n    - --key-file={pki}/server.key\n"
            f"    - --listen-client-urls=https://127.0.0.1:{port},https://127.0.0.1:1\n"
            f"    - --peer-cert-file={pki}/new.pem\n    - --peer-key-file={pki}/new.key\n"
            f"    - --listen-peer-urls=https://127.0.0.1:{port}\n"
        )
        with serving(pki / "new.pem", pki / "new.key") as api:
            lines = served("127.0.0.1", str(api), str(pki / "new.pem"), str(manifest))["others"]
    assert len(lines) == 2
    assert lines[0].startswith("etcd at 127.0.0.1:1: it did not answer: ")
    assert lines[1].startswith(f"etcd at 127.0.0.1:{port}: it doesn't serve the certificate")


def test_etcd_that_serves_http_elsewhere(pki: Path) -> None:
    """Its addresses for clients' HTTP alone are asked too: what is served there is the same certificate."""
    with serving(pki / "old.pem", pki / "old.key") as port:
        manifest = pki / "etcd.yaml"
        manifest.write_text(
            f"    - --cert-file={pki}/new.pem\n    - --key-file={pki}/new.key\n"
            f"    - --listen-client-http-urls=https://127.0.0.1:{port}\n"
        )
        lines = served("127.0.0.1", str(port), str(pki / "old.pem"), str(manifest))["others"]
    assert lines == [f"etcd at 127.0.0.1:{port}: it doesn't serve the certificate in {pki}/new.pem"]


def test_file_without_a_certificate(pki: Path) -> None:
    """It isn't what is served, whatever is."""
    (pki / "empty").write_text("")
    (line,) = served("127.0.0.1", "1", str(pki / "empty"), str(pki / "etcd.yaml"))["others"]
    assert line.endswith(f"{pki}/empty contains no certificate")
