"""Markers on the controllers: whether a playbook was started, and whether it completed.

An interrupted playbook leaves no other trace to check: what it changes is not known.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from upgrader.model.cluster import Host
from upgrader.model.release import RestorePoint
from upgrader.pipeline import Inspection
from upgrader.ports import Clock, Hosts
from upgrader.wait_and_retry import wait_for_hosts

__all__ = ["MARKERS", "Marker", "PlaybookInspector", "PlaybookMarkers", "read_marker"]

T = TypeVar("T")

MARKERS = "/etc/kubernetes/upgrader/playbooks"


@dataclass(frozen=True)
class Marker:
    """One controller's: how often the playbook was started, and the number of the last start that completed."""

    begun: int = 0
    completed: int = 0
    digest: str = ""
    """Of the playbook's file, at its last start."""
    refused: int = 0
    """The number of the start, after the last one, that Ansible refused before any task; 0: none."""


@dataclass(frozen=True)
class PlaybookMarkers:
    """The markers of one playbook. Every method raises HostError when a controller can't be read or written.

    Those that record something on the way forward wait for a silent controller, as it may be rebooting: otherwise, the
    run would be rolled back. Those that only read leave that to the runner.
    """

    hosts: Hosts
    controllers: tuple[Host, ...]
    playbook: Path
    clock: Clock

    def begun(self) -> int:
        """How often it was started: the highest number on any controller."""
        return _begun(self._read())

    def begin(self, note: Callable[[str], None]) -> tuple[Marker, ...]:
        """Record on every controller that it starts, before it does. Returns what `withdraw` and `complete` take."""
        before = tuple(self._awaited(self._read, note))
        number = _begun(before) + 1
        for host, marker in zip(self.controllers, before, strict=True):
            begun = Marker(number, marker.completed, self._digest())
            self._awaited(partial(self._write, host, begun), note)
        return before

    def withdraw(self, before: tuple[Marker, ...]) -> None:
        """Record on every controller that Ansible refused it before any task."""
        number = _begun(before) + 1
        for host, marker in zip(self.controllers, before, strict=True):
            self._write(host, replace(marker, refused=number))

    def refused_since(self, before: int) -> bool:
        """Whether every controller records that the start after the first `before` ones was refused, and none since.

        A controller without a marker proves nothing: it may have been set up anew.
        """
        return bool(self.controllers) and all(marker.begun <= before < marker.refused for marker in self._read())

    def complete(self, before: tuple[Marker, ...], note: Callable[[str], None]) -> None:
        """Record on every controller that it completed; not where another process has started it meanwhile."""
        number = _begun(before) + 1
        for host in self.controllers:
            self._awaited(partial(self._complete, host, number), note)

    def completed_since(self, before: int) -> bool:
        """Whether every controller records that this same playbook was started after `before` times, and completed."""
        digest, found = self._digest(), self._read()
        return bool(found) and all(
            marker.completed == marker.begun > before and marker.digest == digest for marker in found
        )

    def _awaited(self, work: Callable[[], T], note: Callable[[str], None]) -> T:
        why = f"because each controller must record whether playbook {self.playbook.name} was started and completed"
        return wait_for_hosts(self.clock, work, note, why)

    def _read(self) -> list[Marker]:
        return [read_marker(self.hosts, host, self._path) for host in self.controllers]

    def _complete(self, host: Host, number: int) -> None:
        marker = read_marker(self.hosts, host, self._path)
        if marker.begun == number:
            self._write(host, replace(marker, completed=number))

    def _write(self, host: Host, marker: Marker) -> None:
        self.hosts.run(host, ["install", "-d", "-m", "0700", MARKERS])
        self.hosts.write(host, self._path, json.dumps(vars(marker)).encode())

    def _digest(self) -> str:
        return hashlib.sha256(self.playbook.read_bytes()).hexdigest() if self.playbook.is_file() else ""

    @property
    def _path(self) -> str:
        return f"{MARKERS}/{self.playbook.stem}.json"


@dataclass(frozen=True)
class PlaybookInspector:
    """Whether a playbook whose process was interrupted had finished. If not, it is run again as a whole."""

    markers: PlaybookMarkers

    def await_idle(self, point: RestorePoint | None, note: Callable[[str], None]) -> None:
        """Nothing is under way: Ansible ends with the process that started it."""

    def inspect(self, point: RestorePoint | None) -> Inspection:
        name = self.markers.playbook.name
        if point is not None and self.markers.completed_since(point.begun):
            return Inspection(True, f"playbook {name} had finished")
        return Inspection(False, f"playbook {name} had not finished: running it again")


def _begun(markers: Iterable[Marker]) -> int:
    return max((marker.begun for marker in markers), default=0)


def read_marker(hosts: Hosts, host: Host, path: str) -> Marker:
    """A marker; a missing or unreadable one means that the playbook was never started."""
    content = hosts.read(host, path)
    try:
        found = json.loads(content or b"{}")
        numbers = {name: int(found.get(name, 0)) for name in ("begun", "completed", "refused")}
        return Marker(**numbers, digest=str(found.get("digest", "")))
    except (ValueError, AttributeError, TypeError, OverflowError, RecursionError):
        return Marker()
