"""Requests, answers and errors of a client, in either version of HTTP."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol

from upgrader.gates.availability.api_endpoint import ApiEndpoint

__all__ = [
    "Attempt",
    "BadAnswer",
    "Closed",
    "Connection",
    "Exchange",
    "Request",
    "Unprocessed",
    "described",
    "fields",
    "judged",
]


class BadAnswer(Exception):
    """The server sent invalid HTTP, or ended in the middle of an answer."""


class Closed(Exception):
    """The connection ended before any part of an answer: the server may not have received the request."""


class Unprocessed(Exception):
    """The server did not process the request, so that a client may send it again (RFC 9113, 8.7)."""


@dataclass(frozen=True)
class Request:
    """An HTTP request. Statuses in `accept` count as success, like 2xx."""

    method: str
    path: str
    body: bytes | None = field(default=None, repr=False)
    accept: tuple[int, ...] = ()
    when_missing: Request | None = None
    """The request after a 404: creates the object that this request updates."""

    @property
    def idempotent(self) -> bool:
        """Whether sending it twice has the same effect as sending it once (RFC 9110, 9.2.2)."""
        return self.method in ("GET", "HEAD", "PUT", "DELETE")


class Exchange(Protocol):
    """An answer whose head has arrived."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""

    async def chunk(self) -> bytes:
        """The next part of the body, b"" at its end. Raises BadAnswer or OSError when it is cut off."""
        ...


class Connection(Protocol):
    """An open connection to an endpoint."""

    async def begin(self, request: Request) -> Exchange:
        """Send a request and wait for the head of its answer. Raises Closed, Unprocessed, BadAnswer or OSError."""
        ...

    def close(self) -> None:
        """Close it at once, with all open exchanges."""
        ...


@dataclass(frozen=True)
class Attempt:
    """The result of one try: a status, or an error without one."""

    ok: bool
    status: int = 0
    error: str = ""
    retry_after: float | None = None
    """Seconds that the server asked the client to wait, with a 429 or 503."""
    unanswered: bool = False
    """A kept connection was closed before any part of an answer: the server may not have received the request."""
    unprocessed: bool = False
    """The server reported that it did not process the request."""
    body: bytes = field(default=b"", repr=False, compare=False)


def fields(endpoint: ApiEndpoint, request: Request) -> dict[str, str]:
    """The header fields of a request, names in lower case, without those for its body's framing."""
    found = {"accept": "application/json", "user-agent": "upgrader-availability"}
    found |= {name.lower(): value for name, value in endpoint.headers.items()}
    if request.body is not None:
        found["content-type"] = "application/json"
    return found


def judged(request: Request, answer: Exchange, body: bytes) -> Attempt:
    """The result of a complete answer."""
    status = answer.status
    ok = 200 <= status < 300 or status in request.accept
    wait = _retry_after(answer.headers.get("retry-after")) if status in (429, 503) else None
    return Attempt(ok, status, "" if ok else f"HTTP {status}", wait, body=body)


def _retry_after(value: str | None) -> float | None:
    """Seconds, from either form of RFC 9110 (10.2.3); None for anything else."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (when.astimezone(UTC) - datetime.now(UTC)).total_seconds())


def described(error: Exception, doing: str) -> str:
    """An error in a few words; `doing` is the interrupted activity ("connecting", "waiting for the answer")."""
    match error:
        case Closed():
            return "closed without an answer"
        case Unprocessed() | BadAnswer():
            return str(error)
        case ssl.SSLCertVerificationError():
            return f"certificate not trusted: {error.verify_message}"
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError():
            return f"connection closed while {doing}"
        case ssl.SSLError():
            return f"TLS: {error.reason or error}"
        case asyncio.TimeoutError():
            return f"timed out while {doing}"
        case OSError() if error.errno:  # asyncio's own text is longer, without more information
            return f"{os.strerror(error.errno).lower()} while {doing}"
        case _:
            return f"{type(error).__name__}: {error}"
