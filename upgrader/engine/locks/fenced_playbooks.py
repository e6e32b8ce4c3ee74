"""Playbooks that run only while the cluster's lock is held: they are ended when another process has taken it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from upgrader.engine.locks.fence import Fence, taken
from upgrader.errors import PlaybookError
from upgrader.model.cluster import Host
from upgrader.ports import Ansible, Play, PlaybookResult

__all__ = ["FencedPlaybooks"]

_WATCH_SECONDS = 2.0


class FencedPlaybooks:
    """`ports.Ansible` behind a fence."""

    def __init__(self, playbooks: Ansible, fence: Fence, *, every_seconds: float = _WATCH_SECONDS) -> None:
        self._playbooks = playbooks
        self._fence = fence
        self._every_seconds = every_seconds

    def plays(
        self, playbooks: Sequence[Path], *, inventory: Path, timeout_seconds: float
    ) -> tuple[tuple[Play, ...], ...]:
        return self._playbooks.plays(playbooks, inventory=inventory, timeout_seconds=timeout_seconds)

    def run(
        self,
        playbook: Path,
        *,
        inventory: Path,
        variables: Mapping[str, Any],
        limit: str = "",
        timeout_seconds: float,
        check: bool = False,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> PlaybookResult:
        if check:  # changes nothing: it may be asked for while others hold the lock
            return self._playbooks.run(
                playbook,
                inventory=inventory,
                variables=variables,
                limit=limit,
                timeout_seconds=timeout_seconds,
                check=True,
                cancelled=cancelled,
            )
        self._fence.enter(playbook.name)
        with _watched(self._fence, self._every_seconds) as lost_to:
            try:
                result = self._playbooks.run(
                    playbook,
                    inventory=inventory,
                    variables=variables,
                    limit=limit,
                    timeout_seconds=timeout_seconds,
                    check=check,
                    cancelled=lambda: bool(lost_to()) or cancelled(),
                )
            except PlaybookError:
                if lost_to():
                    raise taken(playbook.name, lost_to()) from None
                self._fence.leave()
                raise
        self._fence.leave()
        return result


@contextmanager
def _watched(fence: Fence, every_seconds: float) -> Iterator[Callable[[], str]]:
    """The holder that has taken the lock; "" if none has. A thread asks each controller while the API doesn't confirm
    it.
    """
    over, others = threading.Event(), list[str]()

    def watch(host: Host) -> None:
        while not over.wait(every_seconds):
            other = fence.outranked_on(host) if fence.unconfirmed else ""
            if other:
                others.append(other)
                return

    threads = [threading.Thread(target=watch, args=(host,), daemon=True) for host in fence.controllers]
    for thread in threads:
        thread.start()
    try:
        yield lambda: fence.lost_to or "".join(others[:1])
    finally:
        over.set()
        for thread in threads:
            thread.join()
