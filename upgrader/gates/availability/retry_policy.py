"""The retries of a well-behaved client; a request counts as failed only after them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from upgrader.gates.availability.http_clients import Client
from upgrader.gates.availability.http_exchange import Request

__all__ = ["Outcome", "ask"]

_UNPROCESSED_TRIES = 3


@dataclass(frozen=True)
class Outcome:
    """How a request ended. `raw_failed`: its first try failed, whatever the outcome."""

    ok: bool
    raw_failed: bool
    error: str = ""
    """Why it failed; for a request that succeeded later, why its first try failed."""
    body: bytes = field(default=b"", repr=False, compare=False)
    """The answer to a request that did not fail."""


async def ask(
    client: Client,
    request: Request,
    *,
    deadline: float,
    monotonic: Callable[[], float],
    sleep: Callable[[float], Awaitable[object]],
) -> Outcome:
    """Send a request until it is answered, or failed by these rules:

    - 429 or 503 with Retry-After: retry after that time (RFC 9110, 10.2.3; RFC 6585, 4), if the deadline permits.
    - An idempotent request on a kept connection that was closed before any answer: retry once (RFC 9112, 9.3.1).
    - Any request that the server did not process (GOAWAY, REFUSED_STREAM): retry (RFC 9113, 8.7).
    - 401 for credentials that have ended: retry with what the kubeconfig gives now, as no failure.
    - 404 for an update of an object that doesn't exist (yet): create it.

    `deadline` is in `monotonic` time; a request that was not even sent by then has failed.
    """
    first = ""
    repeated, unprocessed, renewed = False, 0, False
    error = "not sent: earlier attempts took too long"
    while deadline - monotonic() > 0:
        version = client.credentials.version
        attempt = await client.send(request, deadline)
        if attempt.ok:
            return Outcome(True, bool(first), first, attempt.body)
        error = attempt.error
        if attempt.status == 404 and request.when_missing is not None:
            request = request.when_missing
            continue
        if attempt.status == 401 and not renewed and await client.credentials.renewed(version):
            renewed = True
            continue
        first = first or error
        if attempt.retry_after is not None and monotonic() + attempt.retry_after < deadline:
            await sleep(attempt.retry_after)
        elif attempt.unprocessed and unprocessed < _UNPROCESSED_TRIES:
            unprocessed += 1
        elif attempt.unanswered and request.idempotent and not repeated:
            repeated = True
        else:
            break
    return Outcome(False, True, error)
