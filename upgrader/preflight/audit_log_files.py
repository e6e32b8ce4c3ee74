"""Reads audit logs as kube-apiserver writes them to files: one event of audit.k8s.io in JSON on each line.

A log may have many gigabytes, and anyone who can reach the API server can write to it. So only lines that name a
deprecated or removed API are parsed, and the memory used doesn't grow with the number of requests.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from upgrader.errors import UsageError
from upgrader.model.audit_log import AS, AuditLog, Requests, ending_apis

__all__ = ["given_audit_log", "read_audit_log", "read_clients"]

_LONGEST_LINE = 16 * 1024 * 1024
"""An event has at most a request and its answer. etcd takes 1.5 MiB; an answered list may be longer."""
_MOST_CLIENTS = 10_000
_KEPT_NAME = 200
"""As much of a name as is kept: headers may be a megabyte."""
_MOST_GROUPS, _MOST_NAMESPACES = 100, 5
_SHOWN_DAMAGED = 3
_EVENT, _GROUP = b'"auditID"', b"audit.k8s.io"
_RECEIVED = re.compile(rb'"requestReceivedTimestamp"\s*:\s*"([0-9T:.Z+-]{1,40})"')
_KUBELET = re.compile(rb'"username"\s*:\s*"system:node:([a-z0-9.-]{1,253})"')
_ANSWERED = re.compile(rb'"stage"\s*:\s*"(?:ResponseComplete|Panic)"')
"""Only watches and the like are logged when they begin, too (ResponseStarted)."""
_BODIES = re.compile(rb'"(?:request|response)Object"\s*:')
_REFUSED = (401, 403)
"""Asked before it is known whether the API is there."""
_REMEDY = "Pass the file that --audit-log-path names, or a folder of such files, in JSON (--audit-log-format)."


def read_audit_log(paths: Sequence[Path], doing: Callable[[str], None] = lambda _: None) -> AuditLog:
    """Read files (also *.gz), and all files of folders. `doing` is called with the current one. Raises UsageError for a
    file that can't be read, or doesn't begin with an event.
    """
    return _read(_Reading(), paths, doing).result()


def read_clients(paths: Sequence[Path], doing: Callable[[str], None] = lambda _: None) -> AuditLog:
    """The same, with the requests for all APIs, also for subresources (`pods/eviction`). It takes longer, as each line
    is parsed.
    """
    return _read(_Reading(of_all=True), paths, doing).result()


def _read(reading: _Reading, paths: Sequence[Path], doing: Callable[[str], None]) -> _Reading:
    for path in paths:
        try:
            for file in _files(path):
                doing(f"reading {file}…")
                reading.read(file)
        except (OSError, EOFError, zlib.error) as error:
            where = getattr(error, "filename", None) or path
            raise UsageError(f"{where}: {getattr(error, 'strerror', None) or error}", remedy=_REMEDY) from error
    return reading


def given_audit_log(paths: Sequence[Path], doing: Callable[[str], None] = lambda _: None) -> AuditLog | None:
    """The same of what `--audit-log` names; None where it names nothing."""
    return read_audit_log(paths, doing) if paths else None


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        if not path.is_file():
            raise UsageError(f"{path}: not a regular file", remedy=_REMEDY)
        yield path
        return
    files = sorted(each for each in path.rglob("*") if not each.name.startswith(".") and each.is_file())
    if not files:
        raise UsageError(f"{path}: the folder contains no files", remedy=_REMEDY)
    yield from files


_Key = tuple[str, str, str, str]
"""User, agent, apiVersion and resource."""


class _Scope(NamedTuple):
    """What decides about a request, beside its user."""

    groups: tuple[str, ...] = ()
    namespace: str = ""


@dataclass
class _Client:
    verbs: set[str] = field(default_factory=set)
    count: int = 0
    last: str = ""
    groups: tuple[str, ...] = ()
    namespaces: set[str] = field(default_factory=set)


@dataclass
class _Reading:
    """The results so far. `of_all`: of all APIs, and not only of those that end."""

    of_all: bool = False
    events: int = 0
    answered: int = 0
    times: list[str] = field(default_factory=list)
    """The first and the last time of each file."""
    nodes: set[str] = field(default_factory=set)
    damaged_lines: int = 0
    damaged: list[str] = field(default_factory=list)
    begun: dict[int, tuple[_Key, str, str, _Scope]] = field(default_factory=dict)
    """Watches that were answered and have not ended: by a hash of their ids, the client, the verb and the time."""
    clients: dict[_Key, _Client] = field(default_factory=dict)

    def __post_init__(self) -> None:
        versions = "|".join(sorted({re.escape(version).replace("/", r"\\?/") for version, _ in ending_apis()}))
        # A program that has copied the log may have escaped its slashes.
        self._concerns = re.compile(rf"/apis\\?/(?:{versions})\\?/|/api\\?/(?:{versions})\\?/".encode())

    def read(self, path: Path) -> None:
        """Every line of one file."""
        time = before = b""
        with _opened(path) as file:
            for number, line in _lines(file):
                text = line.strip()
                if not text:
                    continue
                whole = text.startswith(b"{") and text.endswith(b"}") and len(line) < _LONGEST_LINE
                if not (whole and _EVENT in text and _GROUP in text):
                    if not before and line.endswith(b"\n"):
                        raise UsageError(f"{path}:{number}: not an event of an audit log", remedy=_REMEDY)
                    if line.endswith(b"\n"):
                        self._damage(path, number)
                    continue
                found = _RECEIVED.findall(text)
                if not before:
                    before = text
                    self._first(text, path, number)
                    self.times += [each.decode() for each in found[-1:]]
                time = found[-1] if found else time
                self.events += text.count(_EVENT)
                self.answered += bool(_ANSWERED.search(text))
                bodies = _BODIES.search(text)
                self.nodes.update(
                    name.decode() for name in _KUBELET.findall(text[: bodies.start() if bodies else None])
                )
                if self.of_all or self._concerns.search(text):
                    self._parse(text, path, number)
        self.times += [time.decode()] if time else []

    def result(self) -> AuditLog:
        """All of it. A watch that has not ended counts, too."""
        for sent in self.begun.values():
            self._note(*sent)
        requests = [
            Requests(
                *key,
                verbs=tuple(sorted(found.verbs)),
                count=found.count,
                last=found.last,
                groups=found.groups,
                namespaces=tuple(sorted(found.namespaces)),
            )
            for key, found in sorted(self.clients.items())
        ]
        first, last = min(self.times, default=""), max(self.times, default="")
        nodes, damaged = frozenset(self.nodes), tuple(self.damaged)
        return AuditLog(self.events, self.answered, first, last, tuple(requests), nodes, self.damaged_lines, damaged)

    def _damage(self, path: Path, number: int) -> None:
        self.damaged_lines += 1
        if len(self.damaged) < _SHOWN_DAMAGED:
            self.damaged.append(f"{path}:{number}")

    def _first(self, text: bytes, path: Path, number: int) -> None:
        """Raises UsageError for what has an event in it, and is none: an envelope of a program that ships logs."""
        try:
            _events(text)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(f"{path}:{number}: not an event of an audit log", remedy=_REMEDY) from error

    def _parse(self, text: bytes, path: Path, number: int) -> None:
        try:
            for event in _events(text):
                self._count(event)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self._damage(path, number)

    def _count(self, event: dict[str, Any]) -> None:
        target, status = event.get("objectRef") or {}, event.get("responseStatus") or {}
        version = "/".join(filter(None, (target.get("apiGroup"), target.get("apiVersion"))))
        resource, stage = str(target.get("resource")), event.get("stage")
        code = status.get("code")
        unknown_path = code == 404 and not status.get("reason")  # HTTP's
        known = "resource" in target if self.of_all else (version, resource) in ending_apis()
        if not known or code in _REFUSED or unknown_path:
            return
        if self.of_all and target.get("subresource"):
            resource = f"{resource}/{target['subresource']}"
        version, resource = version[:_KEPT_NAME], resource[:_KEPT_NAME]
        user = str((event.get("user") or {}).get("username", ""))
        acting = event.get("impersonatedUser") or {}
        as_user = acting.get("username")
        agent = str(event.get("userAgent", ""))
        key = (f"{user}{AS}{as_user}" if as_user else user)[:_KEPT_NAME], agent[:_KEPT_NAME], version, resource
        verb, time = str(event.get("verb"))[:_KEPT_NAME], str(event.get("requestReceivedTimestamp", ""))[:_KEPT_NAME]
        groups = ((acting if as_user else event.get("user") or {}).get("groups") or ())[:_MOST_GROUPS]
        scope = _Scope(
            tuple(str(each)[:_KEPT_NAME] for each in groups), str(target.get("namespace") or "")[:_KEPT_NAME]
        )
        id_ = hash((event["auditID"], key, verb))
        if stage == "ResponseStarted":
            self.begun[id_] = key, verb, time, scope
        elif stage in ("ResponseComplete", "Panic"):
            self.begun.pop(id_, None)
            self._note(key, verb, time, scope)

    def _note(self, key: _Key, verb: str, time: str, scope: _Scope) -> None:
        if key not in self.clients and len(self.clients) >= _MOST_CLIENTS:
            key, scope = ("many users", "many user agents", *key[2:]), _Scope()
        client = self.clients.setdefault(key, _Client())
        client.verbs.add(verb)
        client.count += 1
        client.last = max(client.last, time)
        client.groups = scope.groups
        if len(client.namespaces) < _MOST_NAMESPACES:
            client.namespaces.add(scope.namespace)


def _opened(path: Path) -> gzip.GzipFile | BinaryIO:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _lines(file: gzip.GzipFile | BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines with their numbers, of one that is too long its beginning."""
    number = 0
    while line := file.readline(_LONGEST_LINE):
        number += 1
        yield number, line
        while len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            line = file.readline(_LONGEST_LINE)


def _events(text: bytes) -> Sequence[dict[str, Any]]:
    """Raises ValueError, KeyError, TypeError or RecursionError for what is neither an event nor a list of them."""
    found = json.loads(text)
    if found["kind"] not in ("Event", "EventList") or not str(found["apiVersion"]).startswith("audit.k8s.io/"):
        raise ValueError(found["kind"])
    events: list[dict[str, Any]] = found["items"] if found["kind"] == "EventList" else [found]
    return events
