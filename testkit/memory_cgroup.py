"""A limit of memory for a program and what it starts, as the service manager's `MemoryMax` is one: a cgroup."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["memory_limit"]

_V1, _V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
_PREFIX = "upgrader-test"
_REMOVAL_SECONDS = 10.0
_ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


@contextmanager
def memory_limit(byte_count: int) -> Iterator[tuple[str, ...]]:
    """The words that a command begins with to be limited; the cgroup is removed at the end, when all has ended.

    Raises:
        OSError: this machine has no controller `memory`, or another user owns it
        AssertionError: something still runs in the cgroup at the end

    """
    root, file = (_V1, "memory.limit_in_bytes") if _V1.is_dir() else (_V2, "memory.max")
    cgroup = root / f"{_PREFIX}-{os.getpid()}-{time.monotonic_ns()}"
    cgroup.mkdir()
    try:
        (cgroup / file).write_text(str(byte_count))
        yield ("sh", "-c", _ENTER, str(cgroup))
    finally:
        _remove(cgroup)


def _remove(cgroup: Path) -> None:
    """Killed processes leave it a moment after their parent was told."""
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError):
            return cgroup.rmdir()
        time.sleep(0.05)
    raise AssertionError(f"{cgroup}: still there: {(cgroup / 'cgroup.procs').read_text().split()}")
