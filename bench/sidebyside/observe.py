"""Load on the API during a trial, what it measures, and the controllers' memory."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.sidebyside.trial import Mark, Seen, per_second
from upgrader.gates.availability.prober_control import AvailabilityProbe
from upgrader.model.availability import Availability

__all__ = ["Observer", "anonymous_bytes", "memory_files"]

_MEMORY_SECONDS = 0.5
_ERRORS = 6


class Observer:
    """A context manager that applies load and measures memory while it lasts."""

    def __init__(self, kubeconfig: Path, requests_per_second: float, memory: Sequence[Path]) -> None:
        """`memory`: one file of `memory_files` for each controller."""
        self._probe = AvailabilityProbe(kubeconfig, requests_per_second=requests_per_second, on_change=self._count)
        self._memory = memory
        self._marks: list[Mark] = []
        self._samples: list[tuple[float, int]] = []
        self._bytes: list[int] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow_memory, daemon=True)
        self._began = self._began_wall = 0.0

    def __enter__(self) -> Self:
        self._probe.start()
        self._began, self._began_wall = time.monotonic(), time.time()
        self._samples.clear()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def seconds(self) -> float:
        """Since the load began."""
        return time.monotonic() - self._began

    def mark(self, text: str, wall: float | None = None) -> None:
        """Mark that something begins: now, or `wall` seconds after 1970."""
        self._marks.append(Mark(round(self.seconds if wall is None else wall - self._began_wall, 2), text))

    def marked(self, text: str) -> float:
        """When that was marked first, in seconds since the load began; raises LookupError if it never was."""
        for mark in self._marks:
            if mark.text == text:
                return mark.seconds
        raise LookupError(f"{text!r} was never marked")

    def stop(self) -> Seen:
        """Stop the load and return what was seen; may be called again."""
        found = self._probe.stop()
        self._over.set()
        self._thread.join()
        return _seen(found, self._samples, self._bytes, self._marks)

    def _count(self, counts: Availability) -> None:
        if self._began:
            self._samples.append((self.seconds, counts.requests - counts.failed))

    def _follow_memory(self) -> None:
        while not self._over.is_set():
            self._bytes.append(max(anonymous_bytes(file.read_text()) for file in self._memory))
            self._over.wait(_MEMORY_SECONDS)


def memory_files(group: str) -> Path:
    """The file of a control group that `anonymous_bytes` reads, for cgroup v1 or v2."""
    root = Path("/sys/fs/cgroup")
    v1 = root / "memory" / group / "memory.stat"
    return v1 if v1.exists() else root / group / "memory.stat"


def anonymous_bytes(stat: str) -> int:
    """Memory of a control group and all below it that isn't a cache of files, from its `memory.stat`.

    Caches are left out: the kernel frees them when memory is short, and their size depends on earlier work.
    """
    fields = dict(line.split() for line in stat.splitlines())
    return int(fields["total_rss"] if "total_rss" in fields else fields["anon"])


def _seen(
    found: Availability, samples: Sequence[tuple[float, int]], memory: Sequence[int], marks: Sequence[Mark]
) -> Seen:
    errors = Counter(failure.error for failure in (*found.failures, *found.raw_failures))
    return Seen(
        requests=found.requests,
        failed=found.failed,
        raw_failed=found.raw_failed,
        longest_gap_ms=found.longest_gap_ms,
        p50_ms=found.latency.p50,
        p99_ms=found.latency.p99,
        watch_events=found.watches.events,
        watch_missed=found.watches.missed,
        watch_repeated=found.watches.repeated,
        errors=dict(errors.most_common(_ERRORS)),
        failed_by={f"{lane.client}, {lane.request}": lane.failed for lane in found.lanes if lane.failed},
        memory_before_mib=round(memory[0] / 2**20, 1),
        memory_peak_mib=round(max(memory) / 2**20, 1),
        prober_stalled_ms=found.stalled_ms,
        answered=per_second(samples),
        marks=tuple(sorted(marks, key=lambda mark: mark.seconds)),
    )
