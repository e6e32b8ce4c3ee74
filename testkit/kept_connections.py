"""Clients that each keep one HTTP/1.1 connection and write through it, and count the effects of a rollout.

They repeat only writes that were answered with 429: what a client may not repeat must not be lost.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from testkit.api_load import Access, access_of

__all__ = ["KeptConnections", "KeptSeen"]

_TIMEOUT_SECONDS = 15.0
_CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


@dataclass(frozen=True)
class KeptSeen:
    """What the clients of one period saw. All counts are of single answers; none is subtracted.

    `answered`: 2xx. `told`: 429 with Retry-After, after which the client connects again. `failed`: everything else,
    above all a closed connection. `longest_pause_ms`: the longest time from the moment at which a write was due to its
    2xx.
    """

    connections: int
    period_seconds: float
    answered: int
    told: int
    failed: int
    longest_pause_ms: float
    failures: tuple[str, ...]


@dataclass
class _Client:
    """One client in its own thread, with a ConfigMap of its own."""

    name: str
    period: float
    begin_after: float
    access: Access
    answered: int = 0
    told: int = 0
    failed: int = 0
    longest_pause: float = 0.0
    failures: list[str] = field(default_factory=list)
    _connection: http.client.HTTPSConnection | None = None

    def create(self) -> None:
        """Create its ConfigMap, unless it is there."""
        body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self.name}})
        status, _ = self._send("POST", _CONFIGMAPS, body, "application/json")
        if status not in (201, 409):
            raise RuntimeError(f"could not create ConfigMap default/{self.name}: HTTP {status}")

    def work(self, stop: threading.Event) -> None:
        """Write once a period until `stop`."""
        due = time.monotonic() + self.begin_after
        while not stop.wait(max(0.0, due - time.monotonic())):
            self._write(due, stop)
            due = max(due + self.period, time.monotonic())
        if self._connection:
            self._connection.close()

    def _write(self, due: float, stop: threading.Event) -> None:
        while True:
            body = json.dumps({"data": {"at": datetime.now(UTC).isoformat()}})
            try:
                status, after = self._send("PATCH", f"{_CONFIGMAPS}/{self.name}", body, "application/merge-patch+json")
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                self._fail(f"{type(error).__name__}: {error}")
                return
            if status != 429 or after is None:
                break
            self.told += 1
            if stop.wait(after):
                return
        if status >= 300:
            self._fail(f"HTTP {status}")
            return
        self.answered += 1
        self.longest_pause = max(self.longest_pause, time.monotonic() - due)

    def _send(self, method: str, path: str, body: str, kind: str) -> tuple[int, float | None]:
        """Status and Retry-After of one request on the kept connection."""
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(
                *self.access.address, timeout=_TIMEOUT_SECONDS, context=self.access.context
            )
        self._connection.request(method, path, body, {**self.access.headers, "Content-Type": kind})
        response = self._connection.getresponse()
        response.read()
        if response.will_close:
            self._drop()
        after = response.headers.get("Retry-After")
        return response.status, float(after) if after else None

    def _drop(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    def _fail(self, problem: str) -> None:
        self.failed += 1
        self.failures.append(f"{datetime.now(UTC):%H:%M:%S.%f} {self.name}, every {self.period:g} s: {problem}")


class KeptConnections:
    """Clients by period: `{seconds between two writes: how many clients}`; they run until `stop`."""

    def __init__(self, kubeconfig: Path, clients: Mapping[float, int]) -> None:
        access = access_of(kubeconfig)
        self._clients = [
            _Client(f"kept-{period:g}-{number}", period, period * number / count, access)
            for period, count in clients.items()
            for number in range(count)
        ]
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=c.work, args=[self._stop], daemon=True) for c in self._clients]

    def __enter__(self) -> Self:
        for client in self._clients:
            client.create()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> tuple[KeptSeen, ...]:
        """Stop all clients; returns what each group saw, in the order of their periods. May be called again."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        return self.seen()

    def answers(self) -> tuple[int, ...]:
        """The number of 2xx so far of each client."""
        return tuple(client.answered for client in self._clients)

    def seen(self) -> tuple[KeptSeen, ...]:
        """What each group saw so far."""
        periods = sorted({client.period for client in self._clients})
        return tuple(_together(period, [c for c in self._clients if c.period == period]) for period in periods)


def _together(period: float, clients: Iterable[_Client]) -> KeptSeen:
    group = list(clients)
    return KeptSeen(
        connections=len(group),
        period_seconds=period,
        answered=sum(client.answered for client in group),
        told=sum(client.told for client in group),
        failed=sum(client.failed for client in group),
        longest_pause_ms=round(max(client.longest_pause for client in group) * 1000, 1),
        failures=tuple(sorted(line for client in group for line in client.failures)),
    )
