"""Renews the lease of a program on a host, which ends without it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from upgrader.errors import UpgraderError
from upgrader.model.cluster import Host
from upgrader.onhost.rehearsal.abandoned import LEASE
from upgrader.ports import Commands

__all__ = ["renewed_lease"]

_EVERY_SECONDS = 15.0
_TOUCH_SECONDS = 60.0
_JOIN_SECONDS = 5.0


@contextmanager
def renewed_lease(hosts: Commands, host: Host, work: str) -> Iterator[None]:
    """Renew it at once and until the context ends, in a thread, in the folder `work`, which must exist."""
    over = threading.Event()

    def renew() -> None:
        while True:
            with suppress(UpgraderError):  # what runs in the context meets the same error, and raises it
                hosts.run(host, ["touch", "--", f"{work}/{LEASE}"], timeout_seconds=_TOUCH_SECONDS)
            if over.wait(_EVERY_SECONDS):
                return

    thread = threading.Thread(target=renew, name="rehearsal-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_JOIN_SECONDS)  # a host that hangs must not keep the command
