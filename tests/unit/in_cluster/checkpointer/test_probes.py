"""Readiness probes and etcd, asked over real sockets."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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
        assert etcd_health.is_away(needs(url, logs=tmp_path / "logs", pki=tmp_path)) is away


def test_etcd_that_nobody_listens_for_is_away() -> None:
    """Where the files can't be read here, a connection proves at least that."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not etcd_health.is_away(needs(f"https://127.0.0.1:{port}"))
    assert etcd_health.is_away(needs(f"https://127.0.0.1:{port}"))
    assert not etcd_health.is_away({"spec": {"containers": [{"name": "kube-scheduler"}]}})
