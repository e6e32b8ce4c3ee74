"""Latencies in a histogram of bounded error and size, like HDR histograms.

Buckets are linear within each power of two: 64 of them, so a value is known to within 1/64 (1.6 %), from a
microsecond up to any length. At most some 1,500 buckets are ever filled between 1 µs and 10 s, whatever the number of
values. The library for this (hdrh) is a C extension without a typed interface, for a shift and a dictionary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

__all__ = ["Histogram"]

_BITS = 6


class Histogram:
    """Counts of durations, in seconds."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._total = 0
        self.maximum = 0.0
        """The longest duration, exactly."""

    def record(self, seconds: float) -> None:
        """Count one duration."""
        self._counts[_bucket(int(seconds * 1e6))] += 1
        self._total += 1
        self.maximum = max(self.maximum, seconds)

    def add(self, others: Iterable[Histogram]) -> None:
        """Add the counts of other histograms."""
        for other in others:
            self._counts.update(other._counts)
            self._total += other._total
            self.maximum = max(self.maximum, other.maximum)

    def percentile(self, percent: float) -> float:
        """The duration that `percent` of all don't exceed, at most 1.6 % too long; 0 without any."""
        rank, seen = self._total * percent / 100, 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= rank:
                return min(_upper(bucket) / 1e6, self.maximum)
        return self.maximum


def _bucket(microseconds: int) -> int:
    """Small values are their own bucket; from there on, the power of two and the bits that follow the first one."""
    shift = max(0, microseconds.bit_length() - _BITS - 1)
    return (shift << _BITS) + (microseconds >> shift)


def _upper(bucket: int) -> int:
    """The end of a bucket, in microseconds."""
    shift = max(0, (bucket >> _BITS) - 1)
    return (bucket - (shift << _BITS) + 1) << shift
