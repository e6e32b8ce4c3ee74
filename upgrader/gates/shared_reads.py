"""Reads that several gates have in common, asked once."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from upgrader.gates.kubernetes_kinds import PODS
from upgrader.ports import AT_ONCE, Clock, Kind, Kube, KubeObject

__all__ = ["ReadMemory", "SharedReads"]

_MOST_SECONDS, _OF_THE_INTERVAL = 0.9, 0.9
"""How old an answer may be at most: that of the same round of gates. Between two rounds are a second, or a shorter
interval, however long a round takes: so none of the next round's questions gets an answer of this one."""

_NEVER_SHARED = frozenset({"/readyz", "/metrics"})
"""They are asked for what is so at this very moment."""

_T = TypeVar("_T")


@dataclass
class ReadMemory:
    """The last answers, by what was asked, each with the time of the question (monotonic)."""

    answers: dict[tuple[object, ...], tuple[float, object]] = field(default_factory=dict)
    asked: int = 0
    """How many requests were made; a long list is several."""


@dataclass(frozen=True)
class SharedReads:
    """`ports.Kube`; what was read in the same round of gates isn't asked for again.

    Several gates read the same workloads and pods in each round, and what answers them is being upgraded. No error is
    remembered, nor what is of a kind that was changed through this since. Answers are shared: readers don't change
    them.
    """

    kube: Kube
    clock: Clock
    memory: ReadMemory
    interval_seconds: float = 1.0
    """The shortest time between two rounds: an answer is no more than one check's."""

    def get(self, kind: Kind, name: str, namespace: str = "") -> KubeObject | None:
        return self._shared(("get", kind, name, namespace), lambda: self._counted().get(kind, name, namespace))

    def list(self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> tuple[KubeObject, ...]:
        key = ("list", kind, namespace, labels, fields)

        def listed() -> tuple[KubeObject, ...]:
            found = self._counted().list(kind, namespace, labels=labels, fields=fields)
            self.memory.asked += max(0, len(found) - 1) // AT_ONCE
            return found

        return self._shared(key, listed)

    def logs(self, namespace: str, pod: str, container: str, *, previous: bool = False, lines: int = 20) -> str:
        key = ("logs", namespace, pod, container, previous, lines)
        return self._shared(
            key, lambda: self._counted().logs(namespace, pod, container, previous=previous, lines=lines)
        )

    def each(
        self, kind: Kind, namespace: str = "", *, labels: str = "", at_once: int = AT_ONCE, metadata_only: bool = False
    ) -> Iterator[KubeObject]:
        found = self.kube.each(kind, namespace, labels=labels, at_once=at_once, metadata_only=metadata_only)
        self.memory.asked += 1
        for number, item in enumerate(found):
            self.memory.asked += number > 0 and number % at_once == 0
            yield item

    def count(self, kind: Kind, namespace: str = "", *, labels: str = "") -> int:
        return self._counted().count(kind, namespace, labels=labels)

    def create(self, kind: Kind, manifest: KubeObject, namespace: str = "", *, dry_run: bool = False) -> KubeObject:
        if not dry_run:
            self._forget(kind)
        return self._counted().create(kind, manifest, namespace, dry_run=dry_run)

    def apply(self, kind: Kind, manifest: KubeObject, namespace: str = "") -> KubeObject:
        self._forget(kind)
        return self._counted().apply(kind, manifest, namespace)

    def replace(self, kind: Kind, manifest: KubeObject, namespace: str = "") -> KubeObject:
        self._forget(kind)
        return self._counted().replace(kind, manifest, namespace)

    def patch(
        self, kind: Kind, name: str, changes: KubeObject, namespace: str = "", *, subresource: str = ""
    ) -> KubeObject:
        self._forget(kind)
        return self._counted().patch(kind, name, changes, namespace, subresource=subresource)

    def dry_patch(self, kind: Kind, name: str, changes: KubeObject, namespace: str = "") -> KubeObject:
        return self._counted().dry_patch(kind, name, changes, namespace)

    def delete(self, kind: Kind, name: str, namespace: str = "", *, at_once: bool = False) -> None:
        self._forget(kind)
        self._counted().delete(kind, name, namespace, at_once=at_once)

    def evict(self, pod: str, namespace: str, *, uid: str) -> None:
        self._forget(PODS)
        self._counted().evict(pod, namespace, uid=uid)

    def watch(self, kind: Kind, namespace: str, name: str, *, timeout_seconds: int) -> Iterator[KubeObject]:
        return self._counted().watch(kind, namespace, name, timeout_seconds=timeout_seconds)

    def raw(self, path: str, *, server: str = "", token: str = "") -> str:
        if path.partition("?")[0] in _NEVER_SHARED:
            return self._counted().raw(path, server=server, token=token)
        return self._shared(("raw", path, server, token), lambda: self._counted().raw(path, server=server, token=token))

    def server_time(self) -> datetime:
        return self._counted().server_time()

    def reconnect(self) -> None:
        self.memory.answers.clear()
        self.kube.reconnect()

    def request_token(self, service_account: str, namespace: str, *, seconds: int, bound_to: KubeObject) -> str:
        return self._counted().request_token(service_account, namespace, seconds=seconds, bound_to=bound_to)

    def _shared(self, key: builtins.tuple[object, ...], ask: Callable[[], _T]) -> _T:
        now, answers = self.clock.monotonic(), self.memory.answers
        known = answers.get(key)
        if known is not None and now - known[0] < self._seconds:
            return known[1]  # type: ignore[return-value]  # the key has the method, which has the type
        self._forget_old(now)
        found = ask()
        answers[key] = (now, found)
        return found

    def _forget(self, kind: Kind) -> None:
        """What was read of that kind. What is of another kind only follows, in its controller's own time."""
        for key in list(self.memory.answers):
            if _is_of(kind, *key):
                self.memory.answers.pop(key, None)

    def _forget_old(self, now: float) -> None:
        """Answers that no gate will use: a list of pods may be large.

        A watcher beside Helm that hangs in a read may go on in a thread of its own, while an undo has begun.
        """
        for key, (asked, _) in list(self.memory.answers.items()):
            if now - asked >= self._seconds:
                self.memory.answers.pop(key, None)

    def _counted(self) -> Kube:
        """The API, for one request."""
        self.memory.asked += 1
        return self.kube

    @property
    def _seconds(self) -> float:
        return min(_MOST_SECONDS, self.interval_seconds * _OF_THE_INTERVAL)


def _is_of(kind: Kind, method: object, what: object, *_: object) -> bool:
    """Whether an answer has objects of a kind; which groups are served depends on objects, too."""
    if method == "raw":
        path = str(what)
        return path == "/apis" or kind.plural in path.split("/")
    return what == kind or (method == "logs" and kind == PODS)
