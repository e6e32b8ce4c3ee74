"""Threads beside a command: what it is sent, and what it prints."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["GIVE_UP_SECONDS", "beside"]

T = TypeVar("T")

GIVE_UP_SECONDS = 5.0
"""That an input is waited for which nothing takes any more: it may be another host's output, and that host hangs."""


def beside(work: Callable[[], T]) -> Future[T]:
    """Its result, from a thread of its own. Python doesn't wait for this thread at its end."""
    done = Future[T]()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised by whom it concerns
            done.set_exception(error)

    threading.Thread(target=run, name="beside", daemon=True).start()
    return done
