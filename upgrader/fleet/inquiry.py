"""Asks many clusters at once: one that doesn't answer delays no other, and all together are waited for a limited time.

An answer that is waited for no longer may still be on its way, as from a file system that hangs. Its thread is left to
itself, keeps no process from ending, and its cluster isn't asked again until it has come.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

__all__ = ["Inquiry"]

Found = TypeVar("Found")

_AT_ONCE = 16
_SECONDS = 20.0
"""Longer than an API server that answers at all takes for two requests."""


class Inquiry(Generic[Found]):
    """Asks at most `at_once` clusters at a time, for at most `seconds` in all."""

    def __init__(self, at_once: int = _AT_ONCE, seconds: float = _SECONDS) -> None:
        self.seconds = seconds
        self._at_once = at_once
        self._asking: set[str] = set()

    def asks(self, name: str) -> bool:
        """Whether a cluster's answer is still on its way."""
        return name in self._asking

    def answers(self, questions: Mapping[str, Callable[[], Found]]) -> Iterator[tuple[str, Found | None]]:
        """What each cluster answers, as answers come; None for one that was asked and hasn't answered in time. One for
        which the time was too short is left out. A question must not raise.
        """
        answers: SimpleQueue[tuple[str, Found]] = SimpleQueue()
        yield from ((name, None) for name in questions if name in self._asking)
        waiting = deque(name for name in questions if name not in self._asking)
        deadline = time.monotonic() + self.seconds
        asked: set[str] = set()
        while waiting or asked:
            while waiting and len(asked) < self._at_once:
                name = waiting.popleft()
                asked.add(name)
                self._asking.add(name)
                Thread(target=self._ask, args=(name, questions[name], answers), daemon=True).start()
            try:
                name, found = answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                break
            asked.remove(name)
            yield name, found
        yield from ((name, None) for name in sorted(asked))

    def _ask(self, name: str, question: Callable[[], Found], answers: SimpleQueue[tuple[str, Found]]) -> None:
        try:
            found = question()
        finally:
            self._asking.discard(name)  # before its answer is seen: then it may be asked again at once
        answers.put((name, found))
