"""What the real HAProxy makes of HTTP/2 clients, kubeadm's static pod, and others, with the chart's configuration."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from testkit.haproxy_process import haproxy_program
from testkit.lab_cluster import until
from testkit.ports import free_port
from testkit.waiting import stretched
from upgrader.adapters.helm import find_helm

CHART = Path(__file__).parents[2] / "charts/kube-apiserver"
HOST, OWN = "127.0.0.1", "127.0.0.3"


class Proxy:
    """The listener and the process for HTTP/2, before a server that sees who connects."""

    def __init__(self, held: ExitStack, folder: Path) -> None:
        self.server = held.enter_context(socket.create_server((OWN, free_port("0.0.0.0")), reuse_port=True))
        self.port = self.server.getsockname()[1]
        values = {"endpoints": {"addresses": [HOST]}, "port": self.port, "haproxy": {"maxConnections": 500}}
        command = [str(find_helm()), "template", "kube-apiserver", str(CHART), "--kube-version", "v1.36.3", "-f", "-"]
        done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=True)
        rendered = [item for item in yaml.safe_load_all(done.stdout) if item]
        (files,) = (item["data"] for item in rendered if item["metadata"]["name"] == "kube-apiserver-proxy")
        environment = {**os.environ, "HOST_IP": HOST, "PRIVATE_ADDRESS": OWN, "STATE": str(folder)}
        folder.chmod(0o755)
        self.processes = []
        for name in ("http2.cfg", "front.cfg"):
            (folder / name).write_text(files[name])
            command = [*haproxy_program(), "-db", "-f", str(folder / name)]
            self.processes.append(held.enter_context(subprocess.Popen(command, env=environment)))
            held.callback(self.processes[-1].kill)
        until("the listener to open", self._listens, timeout_seconds=60, interval_seconds=0.1)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self.port)) == 0

    def connect(self, held: ExitStack, offers: list[str]) -> tuple[socket.socket, socket.socket, str]:
        """A client that has offered protocols, the server's side of it, and the address that the server sees."""
        client = self.client(held, offers, "kubernetes")
        accepted, address = accepted_by(self.server, held)
        return client, accepted, address

    def client(self, held: ExitStack, offers: list[str], name: str, source: str = HOST) -> socket.socket:
        """A client that has offered protocols and asked for a server's name."""
        context, sent = ssl.create_default_context(), ssl.MemoryBIO()
        if offers:
            context.set_alpn_protocols(offers)
        with pytest.raises(ssl.SSLWantReadError):
            context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name).do_handshake()
        where = (HOST, self.port)
        client = held.enter_context(socket.create_connection(where, stretched(30), source_address=(source, 0)))
        client.sendall(sent.read())
        return client


def accepted_by(server: socket.socket, held: ExitStack) -> tuple[socket.socket, str]:
    """The next connection on which something is sent, and its source."""
    server.settimeout(stretched(30))
    while True:  # the connection by which the listener was found to be open comes here, too
        accepted, address = server.accept()
        held.enter_context(accepted).settimeout(stretched(30))
        if accepted.recv(65536):
            return accepted, address[0]


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """With both processes, until the end of the test. Their user isn't root, and may not enter pytest's folders."""
    with ExitStack() as held:
        yield Proxy(held, Path(held.enter_context(tempfile.TemporaryDirectory())))


def test_only_http2_pauses(proxy: Proxy) -> None:
    """A client that offers HTTP/2 gets nothing while its process is stopped, and all of it then; others get theirs at
    once, and are seen at the address by which proxy.sh counts them.
    """
    with ExitStack() as held:
        kept, theirs, address = proxy.connect(held, ["h2", "http/1.1"])
        others = [proxy.connect(held, offers) for offers in (["http/1.1"], [])]
        assert address != OWN and [source for _, _, source in others] == [OWN, OWN]
        proxy.processes[0].send_signal(signal.SIGSTOP)
        theirs.sendall(b"answer")
        for client, accepted, _ in others:
            accepted.sendall(b"answer")
            assert client.recv(100) == b"answer"
        kept.setblocking(False)
        with pytest.raises(BlockingIOError):
            kept.recv(100)
        proxy.processes[0].send_signal(signal.SIGCONT)
        kept.settimeout(stretched(30))
        assert kept.recv(100) == b"answer"


@pytest.mark.parametrize("offers", [["h2", "http/1.1"], []])
def test_a_restored_static_pod_reaches_itself(proxy: Proxy, offers: list[str]) -> None:
    """kubeadm's kube-apiserver, which listens on all addresses beside the chart's, connects to itself at an address of
    HAProxy's where the node lacks ::1. It gets its own connection; whoever else asks for its name doesn't get there.
    """
    with ExitStack() as held:
        static = held.enter_context(socket.create_server(("0.0.0.0", proxy.port), reuse_port=True))
        client = proxy.client(held, offers, "apiserver-loopback-client")
        accepted, source = accepted_by(static, held)
        assert source == "127.0.0.2"
        accepted.sendall(b"itself")
        assert client.recv(100) == b"itself"
        proxy.client(held, [], "apiserver-loopback-client", source=OWN)
        assert accepted_by(proxy.server, held)
