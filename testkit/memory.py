"""What Python's objects take: for tests that promise how little of something large is kept."""

from __future__ import annotations

import gc
import tracemalloc
from types import TracebackType
from typing import Self

__all__ = ["TracedMemory"]


class TracedMemory:
    """Bytes of the objects that were made inside of it."""

    def __enter__(self) -> Self:
        tracemalloc.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        tracemalloc.stop()

    @property
    def kept(self) -> int:
        """Those that can still be reached: when cycles are collected depends on every test before."""
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    @property
    def most(self) -> int:
        """The most that there were at a time."""
        return tracemalloc.get_traced_memory()[1]
