"""Asks many clusters at once: one that doesn't answer delays no other, and all together are waited for a limited time.

An answer that is waited for no longer may still be on its way, as from a file system that hangs. Its thread is left to
itself, keeps no process from ending, and its question isn't asked again until it has come.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

__all__ = ["Inquiry"]

Key = TypeVar("Key", bound=Hashable)
"""What is asked about: the name of a cluster, where each has one question."""
Found = TypeVar("Found")

_AT_ONCE = 16
_SECONDS = 20.0
"""Longer than an API server that answers at all takes for two requests."""


class Inquiry(Generic[Key, Found]):
    """Asks at most `at_once` questions at a time, for at most `seconds` in all."""

    def __init__(self, at_once: int = _AT_ONCE, seconds: float = _SECONDS) -> None:
        self.seconds = seconds
        self._at_once = at_once
        self._asking: set[Key] = set()

    def asks(self, about: Key) -> bool:
        """Whether an answer is still on its way."""
        return about in self._asking

    def answers(self, questions: Mapping[Key, Callable[[], Found]]) -> Iterator[tuple[Key, Found | None]]:
        """What each question brings, as answers come; None for one that was asked and has no answer in time. One for
        which the time was too short is left out. A question must not raise.
        """
        answers: SimpleQueue[tuple[Key, Found]] = SimpleQueue()
        yield from ((about, None) for about in questions if about in self._asking)
        waiting = deque(about for about in questions if about not in self._asking)
        deadline = time.monotonic() + self.seconds
        asked: dict[Key, None] = {}
        while waiting or asked:
            while waiting and len(asked) < self._at_once:
                about = waiting.popleft()
                asked[about] = None
                self._asking.add(about)
                Thread(target=self._ask, args=(about, questions[about], answers), daemon=True).start()
            try:
                about, found = answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                break
            del asked[about]
            yield about, found
        yield from ((about, None) for about in asked)

    def _ask(self, about: Key, question: Callable[[], Found], answers: SimpleQueue[tuple[Key, Found]]) -> None:
        try:
            found = question()
        finally:
            self._asking.discard(about)  # before its answer is seen: then it may be asked again at once
        answers.put((about, found))
