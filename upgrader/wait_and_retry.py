"""Waits and retries, each with an end."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from math import inf
from textwrap import shorten
from typing import TypeVar

from upgrader.errors import ApiError, ApiUnavailable, CredentialsRefused, HostSilent, HostUnreachable
from upgrader.ports import Clock

__all__ = ["HOST_POLL_SECONDS", "HOST_RETURNS_SECONDS", "may_be_repeated", "retry", "wait_for_hosts", "wait_until"]

T = TypeVar("T")

HOST_RETURNS_SECONDS = 300.0
"""How long a host is waited for where nothing answers: a reboot takes a minute, or some."""
HOST_POLL_SECONDS = 5.0

_MOMENT_SECONDS = 3.0
_TOLD_CHARACTERS = 300

_REFUSED_SECONDS = 30.0
"""How long credentials must be refused, without another answer between: an API server that starts may refuse them."""


def wait_until(
    clock: Clock,
    missing: Callable[[], str],
    *,
    seconds: float,
    interval_seconds: float = 1.0,
    what: str = "",
    note: Callable[[str], None] = lambda _: None,
) -> str:
    """Ask every `interval_seconds` what is still missing, until that is nothing ("") or `seconds` have passed.

    Returns "", or what was missing at the end: the caller decides what that means. Asks at least once. An API that
    doesn't answer, or refuses, is one more thing that is missing: what it would have answered is unknown. `note` is
    told once for `what` it waits, and how long at most, unless that is over in a moment. Raises CredentialsRefused
    where the API refuses the credentials for half a minute: it would for the rest of the time, too.
    """
    began, told, accepted = clock.monotonic(), False, clock.monotonic()
    while True:
        try:
            still = missing()
            accepted = clock.monotonic()
        except CredentialsRefused as error:
            still = error.message or "the API server gave no reason"
            if clock.monotonic() >= accepted + _REFUSED_SECONDS:
                raise
        except ApiError as error:
            still = error.message or "the API server gave no reason"
            accepted = clock.monotonic()
        if not still or clock.monotonic() >= began + seconds:
            return still
        if not told and clock.monotonic() >= began + _MOMENT_SECONDS:
            told = True
            note(_waits(seconds, what, still))
        clock.sleep(interval_seconds)


def _waits(seconds: float, what: str, still: str) -> str:
    # Of many nodes, each has its own reason.
    return f"waiting up to {seconds:.0f} s for {what}: {shorten(still, _TOLD_CHARACTERS, placeholder=' …')}"


def retry(
    clock: Clock,
    work: Callable[[], T],
    *,
    pause: Callable[[Exception], float | None],
    attempts: float = inf,
    seconds: float = inf,
    what: str = "",
    note: Callable[[str], None] = lambda _: None,
) -> T:
    """Call `work` until it returns, and return what it does.

    `pause` decides what an exception means: how many seconds to wait before the next attempt, or None for an error
    that another attempt doesn't change. That error is raised, and so is the last one after `attempts`, or when the
    next attempt would begin later than `seconds` after the first. `note` is told once for `what` it waits, and how long
    at most, unless that is over in a moment.
    """
    began = clock.monotonic()
    deadline, told = began + seconds, False
    attempt = 0
    while True:
        attempt += 1
        try:
            return work()
        except Exception as error:
            wait = pause(error)
            if wait is None or attempt >= attempts or clock.monotonic() + wait >= deadline:
                raise
            if not told and clock.monotonic() + wait >= began + _MOMENT_SECONDS:
                told = True
                note(_waits(min(seconds, (attempts - 1) * wait), what, str(error)))
        clock.sleep(wait)


def wait_for_hosts(
    clock: Clock,
    work: Callable[[], T],
    note: Callable[[str], None],
    why: str,
    *,
    also: tuple[type[Exception], ...] = (),
) -> T:
    """Call `work` until each host answers that it asks, and return what it does: one that is silent may be rebooting.
    Then it may also refuse a login for some seconds, as long as it boots.

    `note` is told once what is waited for, how long at most, and `why`, in words that come after "waiting for it". An
    error that is `also` one of these is waited out as well, once a host was silent. Raises the last one once
    HOST_RETURNS_SECONDS have passed, and any other error immediately.
    """
    waits = False

    def pause(error: Exception) -> float | None:
        nonlocal waits
        if isinstance(error, HostSilent) and not waits:
            waits = True
            note(f"{error.message}: waiting up to {HOST_RETURNS_SECONDS:.0f} s for it to answer, {why}")
        return HOST_POLL_SECONDS if waits and isinstance(error, (HostUnreachable, *also)) else None

    return retry(clock, work, pause=pause, seconds=HOST_RETURNS_SECONDS)


def may_be_repeated(error: Exception) -> bool:
    """Whether the API may accept the same change in a moment, after its object was read again.

    It doesn't answer; the object has changed since it was read; or the API server itself, or a webhook, has failed (500
    and above), as it does for a write while etcd elects a leader: whether that was stored isn't known.
    """
    if isinstance(error, ApiUnavailable):
        return True
    status = error.status if isinstance(error, ApiError) else 0
    return status == HTTPStatus.CONFLICT or status >= HTTPStatus.INTERNAL_SERVER_ERROR
