"""Renews the cluster's lock during a run, in a separate thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from upgrader.engine.locks.cluster_lock import ClusterLock

__all__ = ["RENEW_SECONDS", "kept_alive"]

RENEW_SECONDS = 5.0
"""Also how soon other processes see that we are alive."""


@contextmanager
def kept_alive(
    lock: ClusterLock, on_lost: Callable[[str], None], *, every_seconds: float = RENEW_SECONDS
) -> Iterator[None]:
    """Renew the lock until the context ends; when it is lost, report once to whom, and stop."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(every_seconds):
            if not lock.renew():
                on_lost(lock.lost_to)
                return

    thread = threading.Thread(target=beat, name="cluster-lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
