"""A small API server on 127.0.0.1, with a CA of its own, that misbehaves as it is told to."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

TOKEN = "sesame"


@dataclass
class ApiServer:
    """What the server did, and what it shall do: each entry of `script` is for one request, then all is well.

    Entries: a status, a (status, Retry-After) pair, "close" (end the connection without an answer) or "hang" (no
    answer, no end).
    """

    kubeconfig: Path
    port: int
    script: list[int | tuple[int, str] | str] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    connections: set[int] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)
    hanging: threading.Event = field(default_factory=threading.Event)
    """Set when a request hangs."""
    release: threading.Event = field(default_factory=threading.Event)
    """Ends all hanging."""
    lock: threading.Lock = field(default_factory=threading.Lock)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _certificates(folder: Path) -> None:
    """A CA, and a certificate for 127.0.0.1 and `kubernetes`."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    base = (
        x509.CertificateBuilder()
        .issuer_name(name)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
    authority = (
        base.subject_name(name)
        .serial_number(1)
        .public_key(authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("kubernetes")])
    certificate = (
        base.subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")]))
        .serial_number(2)
        .public_key(key.public_key())
        .add_extension(names, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    (folder / "ca.crt").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    (folder / "server.pem").write_bytes(_pem(key) + certificate.public_bytes(serialization.Encoding.PEM))


def _handler(state: ApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with state.lock:
                state.connections.add(self.client_address[1])
                state.requests.append((self.command, self.path))
                step = state.script.pop(0) if state.script else self.usual(body)
            if step == "hang":
                state.hanging.set()
                state.release.wait()
                step = "close"
            if step == "close":
                self.close_connection = True
                with contextlib.suppress(OSError):  # the client may have gone first
                    self.connection.shutdown(socket.SHUT_RDWR)
                return
            status, retry_after = step if isinstance(step, tuple) else (step, "")
            assert isinstance(status, int)
            self.send_response(status)
            if retry_after:
                self.send_header("Retry-After", retry_after)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def usual(self, body: bytes) -> int:
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                return 401
            name = self.path.rpartition("/")[2]
            if self.command == "POST":
                state.objects.add(json.loads(body)["metadata"]["name"])
                return 201
            if self.command == "PUT":
                return 200 if name in state.objects else 404
            if self.command == "DELETE":
                state.objects.discard(name)
            return 200

        do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    return Handler


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Connections that end early are what these tests are about."""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiServer]:
    """The server, and a kubeconfig for it in `tmp_path`."""
    _certificates(tmp_path)
    server = _Quiet(("127.0.0.1", 0), BaseHTTPRequestHandler)
    port = server.server_address[1]
    assert isinstance(port, int)
    state = ApiServer(tmp_path / "kubeconfig", port)
    server.RequestHandlerClass = _handler(state)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "server.pem")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    state.kubeconfig.write_text(
        json.dumps(
            {
                "current-context": "test",
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                "clusters": [
                    {
                        "name": "test",
                        "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority": "ca.crt"},
                    }
                ],
                "users": [{"name": "test", "user": {"token": TOKEN}}],
            }
        )
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    state.release.set()
    server.shutdown()
    thread.join()
    server.server_close()
