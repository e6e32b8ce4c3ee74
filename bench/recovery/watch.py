"""A controller seen from outside: when its sshd answers, and when its API does."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from testkit.api_load import access_of

__all__ = ["Seen", "Watch", "back", "gaps"]

_PAUSE_SECONDS = 0.1
_TIMEOUT_SECONDS = 2.0
_LASTING_SECONDS = 5.0


@dataclass(frozen=True)
class Seen:
    """One change: `seconds` after the watch began, something began to answer (`up`) or stopped."""

    seconds: float
    up: bool


def back(changes: list[Seen], after: float = 0.0) -> float | None:
    """When, in seconds, it first answered at or after `after`; None if it never did."""
    return next((change.seconds for change in changes if change.up and change.seconds >= after), None)


def gaps(changes: list[Seen], after: float) -> tuple[float, ...]:
    """The length in seconds of each outage that began later than `after` and has ended."""
    later = [change for change in changes if change.seconds > after]
    return tuple(up.seconds - down.seconds for down, up in pairwise(later) if up.up and not down.up)


class Watch:
    """Connects to a controller's sshd and API ten times a second each, while the context lasts."""

    def __init__(self, address: str, kubeconfig: Path) -> None:
        access = access_of(kubeconfig)
        self._server, self._tls = access.address, access.context
        self._address = address
        self._stop = threading.Event()
        self._began = 0.0
        self.ssh: list[Seen] = []
        self.api: list[Seen] = []
        self._threads = [
            threading.Thread(target=self._follow, args=[look, changes], daemon=True)
            for look, changes in ((self._ssh_answers, self.ssh), (self._api_answers, self.api))
        ]

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def seconds(self) -> float:
        """Since the watch began."""
        return time.monotonic() - self._began

    def wait_for_api(self, after: float = 0.0, timeout_seconds: float = 300.0) -> float:
        """Wait until the API answers for a while; returns when it began to. Raises TimeoutError."""
        while self.seconds < timeout_seconds:
            since = back(self.api[-1:])
            if since is not None and since >= after and self.seconds - since >= _LASTING_SECONDS:
                first = back(self.api, after)
                return since if first is None else first
            time.sleep(_PAUSE_SECONDS)
        raise TimeoutError(f"waited {timeout_seconds:.0f} s for the API")

    def _follow(self, look: Callable[[], bool], changes: list[Seen]) -> None:
        up = False
        while not self._stop.is_set():
            if look() is not up:
                up = not up
                changes.append(Seen(self.seconds, up))
            self._stop.wait(_PAUSE_SECONDS)

    def _ssh_answers(self) -> bool:
        try:
            with socket.create_connection((self._address, 22), timeout=_TIMEOUT_SECONDS) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def _api_answers(self) -> bool:
        connection = http.client.HTTPSConnection(*self._server, timeout=_TIMEOUT_SECONDS, context=self._tls)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.client.OK
        except (OSError, ssl.SSLError, http.client.HTTPException):
            return False
        finally:
            connection.close()
