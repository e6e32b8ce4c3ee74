"""Reads audit logs as kube-apiserver writes them to files: one event of audit.k8s.io in JSON on each line.

A log may have many gigabytes. Only the lines that name an API which ends are parsed.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from upgrader.errors import UsageError
from upgrader.model.audit_log import AuditLog, Requests, ending_apis

__all__ = ["read_audit_log"]

_LONGEST_LINE = 64 * 1024 * 1024
"""An event has at most the request and its answer, of which etcd takes 1.5 MiB and a list may have more."""
_EVENT = b'"auditID"'
_RECEIVED = re.compile(rb'"requestReceivedTimestamp"\s*:\s*"([0-9T:.Z+-]{1,40})"')
_KUBELET = re.compile(rb'"username"\s*:\s*"system:node:([a-z0-9.-]{1,253})"')
_STAGES = ("ResponseStarted", "ResponseComplete")
"""A watch that lasts has only the first of both."""
_NOT_FOUND = 404
_REMEDY = "Give the file of --audit-log-path, or a folder of such files; the format is JSON (--audit-log-format)."


def read_audit_log(paths: Sequence[Path], doing: Callable[[str], None] = lambda _: None) -> AuditLog:
    """Read files (also *.gz), and all files of folders. `doing` is told which one is read.

    Raises UsageError for a file that can't be read, or has no event.
    """
    reading = _Reading()
    for file in _files(paths):
        doing(f"reading {file}…")
        before = reading.events
        try:
            reading.read(file)
        except (OSError, EOFError, gzip.BadGzipFile) as error:
            raise UsageError(f"{file}: {getattr(error, 'strerror', None) or error}", remedy=_REMEDY) from error
        if reading.events == before and file.stat().st_size:
            raise UsageError(f"{file}: no line of it is an event of an audit log", remedy=_REMEDY)
    return reading.result()


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        files = sorted(each for each in path.iterdir() if each.is_file() and not each.name.startswith("."))
        if not files:
            raise UsageError(f"{path}: the folder has no file", remedy=_REMEDY)
        yield from files


@dataclass
class _Reading:
    """What was read so far."""

    events: int = 0
    times: list[str] = field(default_factory=list)
    """The first and the last time of each file."""
    nodes: set[str] = field(default_factory=set)
    damaged: list[str] = field(default_factory=list)
    seen: set[tuple[str, str, str, str, str]] = field(default_factory=set)
    counts: dict[tuple[str, str, str, str], dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        versions = "|".join(sorted({re.escape(version) for version, _ in ending_apis()} - {"v1"}))
        core = "|".join(sorted(resource for version, resource in ending_apis() if version == "v1"))
        pattern = rf"/apis/(?:{versions})/" + (rf"|/api/v1/(?:\S{{0,300}}/)?(?:{core})\b" if core else "")
        self._concerns = re.compile(pattern.encode())

    def read(self, path: Path) -> None:
        """Every line of one file."""
        last = b""
        with _opened(path) as file:
            for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), 1):
                text = line.strip()
                if not text:
                    continue
                if not (text.startswith(b"{") and text.endswith(b"}") and _EVENT in text):
                    if line.endswith(b"\n"):
                        self.damaged.append(f"{path.name}:{number}")
                    continue
                if not self.events or not last:
                    self._note_time(text)
                last = text
                self.events += text.count(_EVENT)
                self.nodes.update(found.decode() for found in _KUBELET.findall(text))
                if self._concerns.search(text):
                    self._parse(text, f"{path.name}:{number}")
        if last:
            self._note_time(last)

    def result(self) -> AuditLog:
        """All of it."""
        requests = [
            Requests(user, agent, version, resource, tuple(sorted(found["verbs"])), found["count"], found["last"])
            for (user, agent, version, resource), found in sorted(self.counts.items())
        ]
        first, last = min(self.times, default=""), max(self.times, default="")
        return AuditLog(self.events, first, last, tuple(requests), frozenset(self.nodes), tuple(self.damaged))

    def _note_time(self, text: bytes) -> None:
        self.times += [found.decode() for found in _RECEIVED.findall(text)]

    def _parse(self, text: bytes, where: str) -> None:
        try:
            found = json.loads(text)
            events = found["items"] if found.get("kind") == "EventList" else [found]
            for event in events:
                self._count(event)
        except (ValueError, KeyError, TypeError, AttributeError):
            self.damaged.append(where)

    def _count(self, event: dict[str, Any]) -> None:
        target = event.get("objectRef") or {}
        version = "/".join(filter(None, (target.get("apiGroup"), target.get("apiVersion"))))
        resource = str(target.get("resource"))
        answered = (event.get("responseStatus") or {}).get("code")
        if (version, resource) not in ending_apis() or event.get("stage") not in _STAGES or answered == _NOT_FOUND:
            return
        user, agent = str((event.get("user") or {}).get("username", "")), str(event.get("userAgent", ""))
        request = (str(event["auditID"]), user, agent, version, resource)
        if request in self.seen:
            return
        self.seen.add(request)
        client = self.counts.setdefault((user, agent, version, resource), {"verbs": set(), "count": 0, "last": ""})
        client["verbs"].add(str(event.get("verb")))
        client["count"] += 1
        client["last"] = max(client["last"], str(event.get("requestReceivedTimestamp", "")))


def _opened(path: Path) -> gzip.GzipFile | BinaryIO:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")
