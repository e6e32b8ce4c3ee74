"""What is repeated, in this order."""

from __future__ import annotations

from bench.guard.repeated.deletions import CLOCKS, SILENT
from bench.guard.repeated.downscales import PREPARED

__all__ = ["CASES"]

CASES = (SILENT, CLOCKS, PREPARED)
