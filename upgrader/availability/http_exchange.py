"""What a client says and hears, whichever version of HTTP carries it, and how an exchange can break."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol

from upgrader.availability.api_endpoint import ApiEndpoint

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
    """The server sent what is no HTTP, or ended in the middle of an answer."""


class Closed(Exception):
    """The connection ended before any part of an answer came: the server may not have seen the request."""


class Unprocessed(Exception):
    """The server says that it did nothing about the request, so that any client may send it again (RFC 9113, 8.7)."""


@dataclass(frozen=True)
class Request:
    """An HTTP request. Statuses in `accept` are as good as 2xx."""

    method: str
    path: str
    body: bytes | None = field(default=None, repr=False)
    accept: tuple[int, ...] = ()
    when_missing: Request | None = None
    """What a client sends next when the answer is 404: creates what this request updates."""

    @property
    def idempotent(self) -> bool:
        """Whether sending it twice does the same as sending it once (RFC 9110, 9.2.2)."""
        return self.method in ("GET", "HEAD", "PUT", "DELETE")


class Exchange(Protocol):
    """An answer whose head has come."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""

    async def chunk(self) -> bytes:
        """The next part of the body, b"" at its end. Raises BadAnswer or OSError when it breaks off."""
        ...


class Connection(Protocol):
    """An open connection to an endpoint."""

    async def begin(self, request: Request) -> Exchange:
        """Send a request and wait for the head of its answer. Raises Closed, Unprocessed, BadAnswer or OSError."""
        ...

    def close(self) -> None:
        """End it at once, with all that goes on in it."""
        ...


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
    unprocessed: bool = False
    """The server said that it did nothing about the request."""
    body: bytes = field(default=b"", repr=False, compare=False)


def fields(endpoint: ApiEndpoint, request: Request) -> dict[str, str]:
    """The header fields of a request, names in lower case, but for the framing of its body."""
    found = {"accept": "application/json", "user-agent": "upgrader-availability"}
    found |= {name.lower(): value for name, value in endpoint.headers.items()}
    if request.body is not None:
        found["content-type"] = "application/json"
    return found


def judged(request: Request, answer: Exchange, body: bytes) -> Attempt:
    """What a complete answer is worth."""
    status = answer.status
    ok = 200 <= status < 300 or status in request.accept
    wait = _retry_after(answer.headers.get("retry-after")) if status in (429, 503) else None
    return Attempt(ok, status, "" if ok else f"HTTP {status}", wait, body=body)


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


def described(error: Exception, doing: str) -> str:
    """An error in a few words; `doing` says what was going on ("connecting", "waiting for the answer")."""
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
        case OSError() if error.errno:  # asyncio's own text is longer, and says no more
            return f"{os.strerror(error.errno).lower()} while {doing}"
        case _:
            return f"{type(error).__name__}: {error}"
