"""What a well-behaved client does when a try fails; only what is left after that counts as failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.availability.clients import Client, Request

__all__ = ["Outcome", "ask"]


@dataclass(frozen=True)
class Outcome:
    """How a request ended. `raw_failed`: its first try failed, whatever came of it."""

    ok: bool
    raw_failed: bool
    error: str = ""


def ask(
    client: Client,
    request: Request,
    *,
    deadline: float,
    monotonic: Callable[[], float],
    sleep: Callable[[float], object],
) -> Outcome:
    """Send a request until it is answered or the rules say that it failed.

    - 429 or 503 with Retry-After: again after that time (RFC 9110, 10.2.3; RFC 6585, 4), if the deadline permits.
    - An idempotent request on a kept connection that was closed before any answer: once more (RFC 9112, 9.3.1).
    - 404 for an update of what doesn't exist (yet): create it.

    `deadline` is in `monotonic` time; a request that was not even sent by then has failed.
    """
    raw_failed = again = False
    error = "not sent: the tries before it took too long"
    while (left := deadline - monotonic()) > 0:
        attempt = client.send(request, left)
        if attempt.ok:
            return Outcome(True, raw_failed)
        error = attempt.error
        if attempt.status == 404 and request.when_missing is not None:
            request = request.when_missing
            continue
        raw_failed = True
        if attempt.retry_after is not None and monotonic() + attempt.retry_after < deadline:
            sleep(attempt.retry_after)
        elif attempt.unanswered and request.idempotent and not again:
            again = True
        else:
            break
    return Outcome(False, True, error)
