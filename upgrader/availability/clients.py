"""Kinds of clients: one that connects anew for every request, one that keeps its connection."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol

from upgrader.availability.endpoint import Endpoint

__all__ = ["Attempt", "Client", "FreshClient", "KeptClient", "Request"]

_CLOSED = (
    http.client.RemoteDisconnected,
    ConnectionResetError,
    BrokenPipeError,
    ssl.SSLEOFError,
    ssl.SSLZeroReturnError,
)
"""How a connection ends without an answer; http.client.RemoteDisconnected is a ConnectionResetError."""


@dataclass(frozen=True)
class Request:
    """An HTTP request. Statuses in `accept` are as good as 2xx."""

    method: str
    path: str
    body: Callable[[], bytes] | None = field(default=None, compare=False)
    accept: tuple[int, ...] = ()
    when_missing: Request | None = None
    """What a client sends next when the answer is 404: creates what this request updates."""

    @property
    def idempotent(self) -> bool:
        """Whether sending it twice does the same as sending it once (RFC 9110, 9.2.2)."""
        return self.method in ("GET", "HEAD", "PUT", "DELETE")

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class Attempt:
    """How one try ended: with a status, or with an error and no status."""

    ok: bool
    status: int = 0
    error: str = ""
    retry_after: float | None = None
    """Seconds that the server asked to wait, with a 429 or 503."""
    unanswered: bool = False
    """A kept connection was closed before any part of an answer came: the server may not have seen the request."""


class Client(Protocol):
    """One kind of client."""

    name: str
    parallel: int
    """How many threads may use it at once."""

    def send(self, request: Request, timeout_seconds: float) -> Attempt:
        """Try once; never raises for what a server or a network does."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


class _Connection(http.client.HTTPSConnection):
    """An HTTPS connection whose certificate may be for another name than the address."""

    def __init__(self, endpoint: Endpoint, timeout_seconds: float) -> None:
        super().__init__(endpoint.host, endpoint.port, timeout=timeout_seconds, context=endpoint.tls)
        self._endpoint = endpoint

    def connect(self) -> None:
        plain = socket.create_connection((self.host, self.port), self.timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sock = self._endpoint.tls.wrap_socket(plain, server_hostname=self._endpoint.server_name)
        except BaseException:
            plain.close()
            raise


class FreshClient:
    """Connects for every request, as `kubectl`, `curl` and health checks do."""

    name = "fresh"
    parallel = 64

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def send(self, request: Request, timeout_seconds: float) -> Attempt:
        connection = _Connection(self._endpoint, timeout_seconds)
        try:
            return _exchange(connection, self._endpoint, request)
        except (OSError, http.client.HTTPException) as error:
            return Attempt(False, error=_described(error))
        finally:
            connection.close()

    def close(self) -> None:
        """Nothing is kept."""


class KeptClient:
    """Keeps one HTTP/1.1 connection, as pooled clients do, and opens another when the server closed it."""

    name = "kept"
    parallel = 1

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connection: _Connection | None = None

    def send(self, request: Request, timeout_seconds: float) -> Attempt:
        reused = self._connection is not None and self._connection.sock is not None
        if self._connection is None:
            self._connection = _Connection(self._endpoint, timeout_seconds)
        elif self._connection.sock is not None:
            self._connection.sock.settimeout(timeout_seconds)
        try:
            return _exchange(self._connection, self._endpoint, request)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return Attempt(False, error=_described(error), unanswered=reused and isinstance(error, _CLOSED))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _exchange(connection: _Connection, endpoint: Endpoint, request: Request) -> Attempt:
    headers: Mapping[str, str] = {
        "Accept": "application/json",
        "User-Agent": "upgrader-availability",
        **endpoint.headers,
    }
    body = request.body() if request.body else None
    if body is not None:
        headers = {**headers, "Content-Type": "application/json"}
    connection.request(request.method, endpoint.path + request.path, body=body, headers=dict(headers))
    response = connection.getresponse()
    try:
        response.read()
    except (OSError, http.client.HTTPException) as error:
        # An answer began: this is not the case in which a client may quietly ask again.
        connection.close()
        return Attempt(False, error=f"{_described(error)} in the middle of the answer")
    ok = 200 <= response.status < 300 or response.status in request.accept
    wait = _retry_after(response.headers.get("Retry-After")) if response.status in (429, 503) else None
    return Attempt(ok, response.status, "" if ok else f"{response.status} {response.reason}", wait)


def _retry_after(value: str | None) -> float | None:
    """Seconds, from either form that RFC 9110 (10.2.3) allows; None for anything else."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (when.astimezone(UTC) - datetime.now(UTC)).total_seconds())


def _described(error: Exception) -> str:
    match error:
        case http.client.RemoteDisconnected():
            return "closed without an answer"
        case ssl.SSLCertVerificationError():
            return f"certificate not trusted: {error.verify_message}"
        case ssl.SSLError():
            return f"TLS: {error.reason or error}"
        case TimeoutError():
            return "timed out"
        case OSError() if error.strerror:
            return error.strerror.lower()
        case _:
            return f"{type(error).__name__}: {error}"
