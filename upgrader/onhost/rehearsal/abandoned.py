"""Whether anyone still waits for this program: it ends with its client, whatever lies between them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
from typing import NoReturn

__all__ = ["LEASE", "Lease", "end_when_abandoned"]

LEASE = "lease"
"""A file in the work folder that the client touches again and again."""
_LEASE_SECONDS = 120.0
_EXPIRED = (
    json.dumps({"failed": f"it exited, because upgrader did not renew its lease for {_LEASE_SECONDS:.0f} s"}) + "\n"
)


class Lease:
    """Expires if the client renews it no more. Until it does so for the first time, there is none: its SSH server may
    allow one session alone.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: int | None = None
        self._since = 0.0

    def expired(self, now: float) -> bool:
        """`now`: seconds of a monotonic clock. The file's own time is only compared with itself."""
        try:
            renewed = os.stat(self._path).st_mtime_ns
        except FileNotFoundError:
            return self._seen is not None  # another use has taken the folder
        if renewed != self._seen:
            self._seen, self._since = renewed, now
        return now - self._since > _LEASE_SECONDS


def end_when_abandoned(work: str) -> NoReturn:
    """End this process, and with it its unit, once the answer has no reader, or the lease in `work` has expired.

    A broken connection closes the reader's end only where this process has the SSH server's own pipe. A sudo that logs
    input and output, or has a terminal, has a pipe of its own between them, and goes on until something is written.
    """
    watched, lease = select.poll(), Lease(os.path.join(work, LEASE))
    watched.register(1, 0)
    while not any(event & (select.POLLERR | select.POLLHUP) for _, event in watched.poll(1000)):
        if lease.expired(time.monotonic()):
            with contextlib.suppress(OSError):  # no one may read it any more
                os.write(1, _EXPIRED.encode())
            break
    os._exit(1)
