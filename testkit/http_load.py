"""Clients of an HTTP address: a fixed rate of requests, each on a new connection; failures are counted."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

__all__ = ["HttpLoad", "HttpSeen"]

_CLIENTS = 8
_TIMEOUT_SECONDS = 30.0
"""Slow is not failed: machines of a lab share two cores."""


@dataclass(frozen=True)
class HttpSeen:
    """What they saw. `answers`: how often each text was answered. `failures`: answers without status 200, with the
    time.
    """

    requests: int
    seconds: float
    answers: Counter[str]
    failures: tuple[str, ...]
    longest_seconds: float
    """The duration of the slowest answer."""

    def __str__(self) -> str:
        failed = f"{len(self.failures)} of {self.requests} requests failed in {self.seconds:.0f} s"
        return f"{failed} ({self.failures[:10]}); the slowest answer took {self.longest_seconds:.1f} s"


class HttpLoad:
    """Until the end of the block. No request is repeated."""

    def __init__(self, address: str, per_second: float) -> None:
        """`address`: a host with port 80."""
        self._address, self._pause = address, _CLIENTS / per_second
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._requests, self._answers, self._failures, self._longest = 0, Counter[str](), list[str](), 0.0
        self._threads = [threading.Thread(target=self._work, args=(n,), daemon=True) for n in range(_CLIENTS)]
        self._begun = 0.0

    def __enter__(self) -> Self:
        self._begun = time.monotonic()
        for each in self._threads:
            each.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        for each in self._threads:
            each.join(2 * _TIMEOUT_SECONDS)

    def seen(self) -> HttpSeen:
        """So far."""
        with self._lock:
            seconds = time.monotonic() - self._begun
            return HttpSeen(self._requests, seconds, Counter(self._answers), tuple(self._failures), self._longest)

    def _work(self, number: int) -> None:
        due = time.monotonic() + self._pause * number / _CLIENTS
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due = max(due + self._pause, time.monotonic() - 1.0)  # catches up in part on a busy machine
            begun = time.monotonic()
            text, problem = self._ask()
            with self._lock:
                self._requests += 1
                self._longest = max(self._longest, time.monotonic() - begun)
                if problem:
                    self._failures.append(f"{datetime.now(UTC):%H:%M:%S.%f} {problem}")
                else:
                    self._answers[text] += 1

    def _ask(self) -> tuple[str, str]:
        connection = http.client.HTTPConnection(self._address, 80, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request("GET", "/", headers={"Connection": "close"})
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            return "", f"{type(error).__name__}: {error}"
        finally:
            connection.close()
        return text, "" if response.status == 200 else f"HTTP {response.status}: {text[:100]}"
