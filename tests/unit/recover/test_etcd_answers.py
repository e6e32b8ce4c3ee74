"""The question to etcd from a controller, run for real, and what is made of its answer."""

from __future__ import annotations

import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from testkit.certificates import Authority
from testkit.fakes.hosts import FakeHosts
from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.model.etcd_client import EtcdClient
from upgrader.onhost.sending.etcd_answers import ask_etcd
from upgrader.ports import CommandResult

HOST = Host("controller-1", "10.0.0.2")


@contextmanager
def etcd(status: int, files: Path | None = None) -> Iterator[str]:
    """Something that answers as etcd's clients expect it; with files, over TLS and to its own clients only."""

    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/health" else 404)
            self.end_headers()
            self.wfile.write(b'{"health":"false"}')

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Health)
    if files:
        own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(files / "ca.pem"))
        own.load_cert_chain(files / "server.pem", files / "server.key")
        own.verify_mode = ssl.CERT_REQUIRED
        server.socket = own.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"{'https' if files else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answers(client: EtcdClient) -> object:
    """What a controller says, which is this machine."""

    def run(host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        done = subprocess.run([sys.executable, *command[1:]], input=stdin, capture_output=True, check=False)
        return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())

    hosts = FakeHosts()
    hosts.commands["python3"] = run
    return ask_etcd(hosts, HOST, client)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A CA, a server's and a client's certificate, and a client of another CA."""
    own = Authority(tmp_path / "ca")
    own.issue(tmp_path / "server", "etcd")
    own.issue(tmp_path / "client", "kube-apiserver")
    Authority(tmp_path / "other-ca").issue(tmp_path / "stranger", "kube-apiserver")
    return tmp_path


def client(files: Path, *servers: str, named: str = "client", ca: str = "ca") -> EtcdClient:
    """A client with these files."""
    return EtcdClient(servers, str(files / f"{ca}.pem"), str(files / f"{named}.pem"), str(files / f"{named}.key"))


def test_etcd_that_is_healthy(files: Path) -> None:
    """Each address has an answer of its own; nothing else on the machine hears of the question."""
    with etcd(200, files) as url, etcd(503, files) as sick:
        found = answers(client(files, url, sick, "nonsense"))
    assert found == {url: "", sick: 'HTTP 503: {"health":"false"}', "nonsense": "nonsense is not an address of etcd"}


def test_address_without_an_etcd(files: Path) -> None:
    """What refuses the connection is said in the kernel's words."""
    with etcd(200) as gone:
        pass
    found = answers(client(files, gone.replace("http:", "https:")))
    assert isinstance(found, dict) and "refused" in "".join(found.values())


def test_certificates_of_another_ca(files: Path) -> None:
    """In either direction: etcd refuses the client, or the client etcd."""
    with etcd(200, files) as url:
        for wrong in (client(files, url, named="stranger"), client(files, url, ca="other-ca")):
            found = answers(wrong)
            assert isinstance(found, dict) and found[url]


def test_etcd_without_tls() -> None:
    """It needs no files."""
    with etcd(200) as url:
        assert answers(EtcdClient((url,))) == {url: ""}


def test_files_that_are_not_there(tmp_path: Path) -> None:
    """Nobody is asked without them."""
    assert answers(client(tmp_path, "https://127.0.0.1:1")) is None


def test_answer_of_another_form() -> None:
    """A login message instead of an answer is an error of the host."""
    hosts = FakeHosts()
    hosts.commands["python3"] = CommandResult(0, "Welcome!\n", "")
    with pytest.raises(HostError, match="can't be parsed"):
        ask_etcd(hosts, HOST, EtcdClient(("http://127.0.0.1:1",)))
