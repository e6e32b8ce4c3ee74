"""A proxy between upgrader and an API server that injects network faults.

It terminates TLS with its own CA, on loopback only, and forwards requests that carry its token.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import secrets
import socket
import ssl
import struct
import threading
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

from testkit.certificates import Authority
from testkit.waiting import stretched

__all__ = ["Fault", "FaultProxy", "Upstream"]

STALL_SECONDS = 30.0
"""How long a stalled request gets no answer, unless the fault ends earlier."""

_TRICKLE_SECONDS = 0.2


class Fault(StrEnum):
    """What can go wrong between a client and its answer."""

    REFUSED = "connection refused"
    RESET = "reset mid-body"
    STALL = "no answer for 30 s"
    TRICKLE = "an answer byte by byte"
    THROTTLED = "429"
    BROKEN = "500"
    TRUNCATED = "truncated JSON"
    STRANGER = "wrong certificate"
    EXPIRED = "expired token"


@dataclass(frozen=True)
class Upstream:
    """The API server behind the proxy, and the proxy's own credentials for it."""

    url: str
    context: ssl.SSLContext
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, kubeconfig: Path, scratch: Path) -> Self:
        """From an admin's kubeconfig with an embedded client certificate; `scratch` is a private folder."""
        content = yaml.safe_load(kubeconfig.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        pair = scratch / "admin.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
        context.load_cert_chain(pair)
        return cls(cluster["server"], context)


class FaultProxy:
    """The proxy; `set` switches a fault on, for all connections or for the next few requests."""

    def __init__(self, upstream: Upstream, folder: Path) -> None:
        self.upstream = upstream
        self.token = secrets.token_urlsafe()
        self.hits = 0
        """Requests or connections affected since the fault was set."""
        self.outlasted = threading.Event()
        """Set when a stall or a trickle ended by itself while the client was still waiting."""
        self.healed = threading.Event()
        self.healed.set()
        self._folder = folder
        Authority(folder / "ca").issue(folder / "server", "proxy")
        Authority(folder / "stranger-ca").issue(folder / "stranger", "proxy")
        self._contexts = {name: _server_context(folder / name) for name in ("server", "stranger")}
        self._fault: Fault | None = None
        self._left: int | None = None
        self._one = threading.Lock()
        self._server = _Server(self, 0)
        self.port = self._server.server_port

    def __enter__(self) -> Self:
        self._server.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.healed.set()
        self._server.end()

    def write_kubeconfig(self, path: Path, *, like: Path | None = None, server: str = "") -> Path:
        """Write a kubeconfig for the proxy (or for `server`); write it again after `renew_token`.

        It has the CA and the certificate of another one (`like`), so that it is valid for the API server itself too.
        """
        content = yaml.safe_load(like.read_text()) if like else _kubeconfig()
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        trusted = base64.b64decode(cluster.get("certificate-authority-data", ""))
        trusted += (self._folder / "ca.pem").read_bytes()
        cluster["server"] = server or f"https://127.0.0.1:{self.port}"
        cluster["certificate-authority-data"] = base64.b64encode(trusted).decode()
        user["token"] = self.token
        temporary = path.with_name(f".{path.name}.new")
        temporary.touch(mode=0o600)
        temporary.write_text(yaml.safe_dump(content))
        os.replace(temporary, path)
        return path

    def renew_token(self) -> None:
        """Require a new token from now on, as after a short-lived one has expired."""
        self.token = secrets.token_urlsafe()

    def set(self, fault: Fault | None, *, times: int | None = None) -> None:
        """Set a fault, permanently or for that many requests; None ends it. Open connections are closed."""
        with self._one:
            before, self._fault, self._left = self._fault, fault, times
            if fault is not None:
                self.hits = 0
                self.healed.clear()
            else:
                self.healed.set()
        if (fault is Fault.REFUSED) != (before is Fault.REFUSED):
            if fault is Fault.REFUSED:
                self._server.end()
            else:
                self._server = _Server(self, self.port)
                self._server.begin()
        self._server.sever()

    def take(self) -> Fault | None:
        """The fault that applies to a request now."""
        with self._one:
            fault = self._fault
            if fault is not None and self._left is not None:
                if self._left == 0:
                    return None
                self._left -= 1
            self.hits += fault is not None
            return fault

    @property
    def tls(self) -> ssl.SSLContext:
        """The certificate that it presents now."""
        stranger = self._fault is Fault.STRANGER
        if stranger:
            self.hits += 1
        return self._contexts["stranger" if stranger else "server"]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, proxy: FaultProxy, port: int) -> None:
        self.proxy = proxy
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        if self._thread.is_alive():
            self.shutdown()
        self.server_close()
        self.sever()

    def sever(self) -> None:
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(stretched(60))
        self._open.add(request)
        try:
            with self.proxy.tls.wrap_socket(request, server_side=True, suppress_ragged_eofs=True) as secured:
                self._open.add(secured)
                try:
                    _Handler(secured, client_address, self)
                finally:
                    self._open.discard(secured)
        finally:
            self._open.discard(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Broken connections are expected here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def answer(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = proxy.take()
        if fault is Fault.EXPIRED or self.headers.get("Authorization") != f"Bearer {proxy.token}":
            self._status(401, "Unauthorized")
        elif fault is Fault.THROTTLED:
            self._status(429, "too many requests, please try again later", {"Retry-After": "1"})
        elif fault is Fault.BROKEN:
            self._status(500, "an internal error of the API server")
        elif fault is Fault.STALL:
            if not proxy.healed.wait(STALL_SECONDS):
                proxy.outlasted.set()
            self.close_connection = True
        else:
            self._pass_on(body, fault)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - names that the base class calls

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """No log."""

    def _pass_on(self, body: bytes, fault: Fault | None) -> None:
        upstream = self.server.proxy.upstream
        at = urlsplit(upstream.url)
        link = http.client.HTTPSConnection(at.hostname or "", at.port, context=upstream.context, timeout=stretched(60))
        skipped = {"host", "authorization", "connection", "accept-encoding", "content-length"}
        headers = {name: value for name, value in self.headers.items() if name.lower() not in skipped}
        with contextlib.closing(link):
            link.request(self.command, self.path, body or None, {**headers, **upstream.headers})
            response = link.getresponse()
            if fault is None and response.getheader("Content-Length") is None:
                self._stream(response)
                return
            content = response.read()
            half = content[: max(len(content) // 2, 1)]
            if fault is Fault.TRUNCATED:
                self._whole(response, half)
            elif fault is Fault.RESET:
                self._head(response, {"Content-Length": str(len(content))})
                self.wfile.write(half)
                self._reset()
            elif fault is Fault.TRICKLE:
                self._head(response, {"Content-Length": str(len(content))})
                for index in range(len(content)):
                    if index == len(content) - 1:
                        self.server.proxy.outlasted.set()
                    self.wfile.write(content[index : index + 1])
                    if self.server.proxy.healed.wait(_TRICKLE_SECONDS):
                        break
                self.close_connection = True
            else:
                self._whole(response, content)

    def _stream(self, response: http.client.HTTPResponse) -> None:
        self._head(response, {"Transfer-Encoding": "chunked"})
        while chunk := response.read1(65536):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")

    def _whole(self, response: http.client.HTTPResponse, content: bytes) -> None:
        self._head(response, {"Content-Length": str(len(content))})
        self.wfile.write(content)

    def _head(self, response: http.client.HTTPResponse, headers: dict[str, str]) -> None:
        self.send_response(response.status)
        passed = {"Content-Type": response.getheader("Content-Type", ""), **headers}
        for name, value in passed.items():
            self.send_header(name, value)
        self.end_headers()

    def _status(self, code: int, message: str, headers: dict[str, str] | None = None) -> None:
        content = json.dumps({"kind": "Status", "apiVersion": "v1", "message": message, "code": code}).encode()
        self.send_response(code)
        passed = {"Content-Type": "application/json", "Content-Length": str(len(content)), **(headers or {})}
        for name, value in passed.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True


def _kubeconfig() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": {}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
    }


def _server_context(stem: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(stem.with_name(stem.name + ".pem"), stem.with_name(stem.name + ".key"))
    return context
