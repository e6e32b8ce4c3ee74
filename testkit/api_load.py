"""Clients of the Kubernetes API that count what fails: the load under which upgrades are judged.

They share no code with upgrader's own availability probe, so that neither can hide a mistake of the other.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

__all__ = ["Access", "ApiLoad", "LoadSeen", "access_of"]

_THINK_SECONDS = 0.04
_SETUP_SECONDS = 10.0
_SAID_CHARACTERS = 160
_RETRIES = 10
_NAMESPACE = "/api/v1/namespaces/default"
_CONFIGMAP = "upgrader-load"


@dataclass(frozen=True)
class Access:
    """How a client connects to the API: an address, TLS settings, and the fields that each request needs."""

    address: tuple[str, int]
    context: ssl.SSLContext
    headers: Mapping[str, str]

    def connect(self, timeout_seconds: float) -> http.client.HTTPSConnection:
        """A new connection; the first request opens it."""
        return http.client.HTTPSConnection(*self.address, timeout=timeout_seconds, context=self.context)


@dataclass(frozen=True)
class LoadSeen:
    """What the clients saw together.

    `failed`: requests that failed even after the retries that HTTP's RFCs allow (see `_Client`). `lost_writes`: those
    of them that were writes on a kept HTTP/1.1 connection which the server closed. A client must not repeat a write
    that may have been executed, so each such client can lose one. `raw_failed`: failed first tries. `longest_gap_ms`:
    the longest time between two answers to one client, including its think time of 40 ms.
    """

    requests: int
    failed: int
    lost_writes: int
    raw_failed: int
    longest_gap_ms: float
    failures: tuple[str, ...]


@dataclass
class _Client:
    """One client in its own thread. `kept`: one connection for all requests instead of a new one for each."""

    name: str
    method: str
    path: str
    kept: bool
    access: Access
    timeout_seconds: float
    requests: int = 0
    failed: int = 0
    lost_writes: int = 0
    raw_failed: int = 0
    longest_gap_ms: float = 0.0
    failures: list[str] = field(default_factory=list)
    _connection: http.client.HTTPSConnection | None = None
    _answered: float = 0.0

    def work(self, stop: threading.Event) -> None:
        self._answered = time.monotonic()
        while not stop.wait(_THINK_SECONDS):
            self.requests += 1
            self._request()
        self._drop()

    def _request(self) -> None:
        for attempt in range(_RETRIES):
            problem, retry_after = self._once()
            if not problem:
                return
            self.failures.append(f"{datetime.now(UTC):%H:%M:%S.%f} {self.name}: {problem}")
            if attempt == 0:
                self.raw_failed += 1
            if retry_after is None:
                break
            time.sleep(retry_after)
        self.failed += 1

    def _once(self) -> tuple[str, float | None]:
        """Send one request. Returns the problem ("" for none), and the seconds until a retry (None: no retry).

        HTTP's RFCs allow a retry when the server asks for it (Retry-After), and for a GET on a kept connection that
        was closed before any answer, which a server may do at any time.
        """
        reused = self._connection is not None
        try:
            connection = self._connection or self.access.connect(self.timeout_seconds)
            self._connection = connection
            body, headers = None, dict(self.access.headers)
            if self.method == "PATCH":
                body = json.dumps({"data": {"at": datetime.now(UTC).isoformat()}})
                headers["Content-Type"] = "application/merge-patch+json"
            connection.request(self.method, self.path, body, headers)
            response = connection.getresponse()
            said = response.read(_SAID_CHARACTERS).decode(errors="replace")
            response.read()
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            problem = f"{type(error).__name__}: {error}"
            if not reused:
                return problem, None
            if self.method == "GET":
                return problem, 0.0
            self.lost_writes += 1
            return problem, None
        now = time.monotonic()
        self.longest_gap_ms, self._answered = max(self.longest_gap_ms, (now - self._answered) * 1000), now
        if not self.kept or response.will_close:
            self._drop()
        if response.status < 400:
            return "", None
        after = response.headers.get("Retry-After")
        return f"HTTP {response.status}: {said}", float(after) if response.status == 429 and after else None

    def _drop(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None


class ApiLoad:
    """Clients that send requests until `stop`: with new connections, with kept ones, and one that writes.

    `timeout_seconds`: how long each waits for an answer; the longest that kube-apiserver takes for one is 60 s.
    """

    def __init__(self, kubeconfig: Path, *, timeout_seconds: float = 10.0) -> None:
        access = access_of(kubeconfig)
        kinds: Iterable[tuple[str, str, str, bool]] = (
            ("new connections", "GET", _NAMESPACE, False),
            ("kept connection", "GET", f"{_NAMESPACE}/configmaps?limit=5", True),
            ("kept connection, writes", "PATCH", f"{_NAMESPACE}/configmaps/{_CONFIGMAP}", True),
        )
        self._setup = _Client("setup", "POST", f"{_NAMESPACE}/configmaps", False, access, _SETUP_SECONDS)
        self._clients = [_Client(*kind, access, timeout_seconds) for kind in kinds]
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=client.work, args=[self._stop], name=client.name, daemon=True)
            for client in self._clients
        ]

    def __enter__(self) -> Self:
        self._create_configmap()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> LoadSeen:
        """Stop all clients and return what they saw; may be called again."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        return LoadSeen(
            requests=sum(client.requests for client in self._clients),
            failed=sum(client.failed for client in self._clients),
            lost_writes=sum(client.lost_writes for client in self._clients),
            raw_failed=sum(client.raw_failed for client in self._clients),
            longest_gap_ms=max(client.longest_gap_ms for client in self._clients),
            failures=tuple(sorted(line for client in self._clients for line in client.failures)),
        )

    def _create_configmap(self) -> None:
        client = self._setup
        connection = client.access.connect(_SETUP_SECONDS)
        body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _CONFIGMAP}})
        headers = {**client.access.headers, "Content-Type": "application/json"}
        connection.request(client.method, client.path, body, headers)
        response = connection.getresponse()
        answer = response.read().decode()
        connection.close()
        if response.status not in (201, 409):  # created, or it exists already
            raise RuntimeError(f"could not create ConfigMap default/{_CONFIGMAP}: HTTP {response.status}: {answer}")


def access_of(kubeconfig: Path) -> Access:
    """The endpoint of a kubeconfig's current context, which contains its certificates or its token itself."""
    document = yaml.safe_load(kubeconfig.read_text())
    current = _named(document["contexts"], document["current-context"])["context"]
    cluster = _named(document["clusters"], current["cluster"])["cluster"]
    user = _named(document["users"], current["user"])["user"]
    server = urlsplit(cluster["server"])
    address = (str(server.hostname), server.port or 443)
    context = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]))
    if "token" in user:
        return Access(address, context, {"Authorization": f"Bearer {user['token']}"})
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as pem:  # ssl reads client certificates from files only
        pem.write(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
        pem.flush()
        context.load_cert_chain(pem.name)
    return Access(address, context, {})


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode()
