"""Readiness probes and etcd, asked over real sockets."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from testkit.certificates import Authority
from tests.unit.in_cluster.checkpointer.builders import Json, pod
from upgrader.in_cluster.checkpointer.observation import etcd_health
from upgrader.in_cluster.checkpointer.observation.readiness_probes import unready


@contextmanager
def answering(status: int, body: str = "", context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server that answers every request so; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            good = self.path == "/ready" and self.headers.get("X-Probe") == "1"
            self.send_response(status if good or self.path == "/health" else 404)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def probed(probe: Json, port: int) -> Json:
    """A pod at 127.0.0.1 with that readiness probe, on a port by name."""
    ports = [{"name": "https", "containerPort": port}]
    found = pod(containers=[{"name": "main", "image": "x", "ports": ports, "readinessProbe": probe}])
    found["status"]["podIP"] = "127.0.0.1"
    return found


def http_get(**more: object) -> Json:
    """An httpGet probe with a header."""
    headers = [{"name": "X-Probe", "value": "1"}]
    return {"httpGet": {"path": "/ready", "port": "https", "httpHeaders": headers, **more}}


@pytest.mark.parametrize(("status", "says"), [(200, ""), (302, ""), (500, "HTTP 500"), (404, "HTTP 404")])
def test_http_probes_are_judged_by_their_status(status: int, says: str) -> None:
    """Path, header, and a port by name are the probe's own; 2xx and 3xx pass, as for the kubelet."""
    with answering(status) as port:
        why = unready(probed(http_get(), port))
    assert why == "" if not says else says in why and "container main" in why


def test_https_probes_take_any_certificate(tmp_path: Path) -> None:
    """Pods serve their probes with certificates of their own making."""
    Authority(tmp_path / "ca").issue(tmp_path / "server", "somebody")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    with answering(200, context=context) as port:
        assert unready(probed(http_get(scheme="HTTPS"), port)) == ""


def test_tcp_probes_need_a_listener() -> None:
    """A port that nothing listens on is not ready, and the reason names it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert unready(probed({"tcpSocket": {"port": "https"}}, port)) == ""
    assert "refused" in unready(probed({"tcpSocket": {"port": "https"}}, port))


def test_what_cannot_be_asked_from_outside_is_left_to_the_kubelet() -> None:
    """exec probes, and none at all, are no evidence against a pod."""
    assert unready(probed({"exec": {"command": ["true"]}}, 1)) == ""
    assert unready(pod()) == ""


@contextmanager
def shared(count: int, address: str = "127.0.0.1") -> Iterator[int]:
    """A port that as many sockets share, as the instances of kube-apiserver do; the port."""
    with ExitStack() as stack:
        port = 0
        for _ in range(count):
            listener = stack.enter_context(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind((address, port))
            listener.listen()
            port = listener.getsockname()[1]
        yield port


@pytest.mark.parametrize(
    ("listening", "address", "instances", "on_host", "proven"),
    [
        (1, "127.0.0.1", 2, True, False),
        (1, "0.0.0.0", 2, True, False),
        (2, "127.0.0.1", 2, True, True),
        (2, "0.0.0.0", 2, True, True),
        (1, "127.0.0.1", 1, True, True),
        (1, "127.0.0.1", 2, False, True),
    ],
)
def test_an_answer_of_another_instance_proves_nothing(
    listening: int, address: str, instances: int, on_host: bool, proven: bool
) -> None:
    """On a port of the node that the old instance serves, the new one counts only once it listens too; a pod with an
    address of its own answers for itself.
    """
    with shared(listening, address) as port:
        asked = probed({"tcpSocket": {"port": "https"}}, port)
        asked["spec"]["hostNetwork"] = on_host
        why = unready(asked, instances)
    assert why == "" if proven else "2 instances run here, and 1 of them listen" in why


def needs(url: str, **volumes: Path) -> Json:
    """A static pod of a kube-apiserver."""
    args = [f"--etcd-servers={url}", "--etcd-cafile=/pki/ca.pem", "--etcd-certfile=/pki/client.pem"]
    container = {
        "name": "kube-apiserver",
        "command": ["kube-apiserver"],
        "args": [*args, "--etcd-keyfile=/pki/client.key"],
        "volumeMounts": [{"name": n, "mountPath": f"/{n}"} for n in volumes],
    }
    mounted = [{"name": n, "hostPath": {"path": str(p)}} for n, p in volumes.items()]
    return {"spec": {"containers": [container], "volumes": mounted}}


@pytest.mark.parametrize(
    ("body", "away"),
    [({"health": "true"}, False), ({"health": "false"}, True), ({}, True), ([], True)],
)
def test_etcd_is_asked_for_its_health(tmp_path: Path, body: object, away: bool) -> None:
    """A member without a quorum listens, and is unreachable all the same; client and server are verified."""
    authority = Authority(tmp_path / "ca")
    authority.issue(tmp_path / "server", "etcd")
    authority.issue(tmp_path / "client", "kube-apiserver-etcd-client")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    with answering(200, json.dumps(body), context) as port:
        url = f"https://127.0.0.1:1,https://127.0.0.1:{port}"
        assert etcd_health.is_away(needs(url, logs=tmp_path / "logs", pki=tmp_path), 5.0) is away


def test_etcd_that_nobody_listens_for_is_away() -> None:
    """Where the files can't be read here, a connection proves at least that."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not etcd_health.is_away(needs(f"https://127.0.0.1:{port}"), 5.0)
    assert etcd_health.is_away(needs(f"https://127.0.0.1:{port}"), 5.0)
    assert not etcd_health.is_away({"spec": {"containers": [{"name": "kube-scheduler"}]}}, 5.0)


def test_etcd_that_serves_grpc_alone_is_not_away(tmp_path: Path) -> None:
    """With --listen-client-http-urls, the port that kube-apiserver uses closes connections of HTTP/1.1."""
    authority = Authority(tmp_path / "ca")
    authority.issue(tmp_path / "server", "etcd")
    authority.issue(tmp_path / "client", "kube-apiserver-etcd-client")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def close_at_once() -> None:
            connection, _ = listener.accept()
            with context.wrap_socket(connection, server_side=True) as encrypted:
                encrypted.recv(4096)

        thread = threading.Thread(target=close_at_once)
        thread.start()
        try:
            port = listener.getsockname()[1]
            assert not etcd_health.is_away(needs(f"https://127.0.0.1:{port}", pki=tmp_path), 5.0)
        finally:
            thread.join()


@pytest.mark.parametrize(
    ("url", "env", "away"),
    [
        ("https://$(HOST):1", [{"name": "HOST", "value": "127.0.0.1"}], True),
        ("https://$(HOST):1", [{"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}], False),
        ("https://$(HOST):1", [], False),
        ("https://127.0.0.1:port", [], False),
        ("unix:///run/etcd.sock", [], False),
    ],
)
def test_an_address_that_is_not_known_here_is_not_away(url: str, env: list[Json], away: bool) -> None:
    """The kubelet expands variables; what only the container knows is no evidence against its etcd."""
    found = needs(url)
    found["spec"]["containers"][0]["env"] = env
    assert etcd_health.is_away(found, 5.0) is away
