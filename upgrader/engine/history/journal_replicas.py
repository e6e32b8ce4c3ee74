"""Replicas of a run's journal outside the machine that runs it: in the cluster, and on controllers.

A journal only grows, so each replica is a prefix of the longest one. They diverge where a machine died with records
that no replica had yet, and another machine resumed the run: the journal that was resumed more often wins. Where two
machines resumed equally often, neither journal is overwritten.
"""

from __future__ import annotations

import base64
import gzip
import re
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from upgrader.engine.journal.journal_file import JOURNAL, parse_journal
from upgrader.engine.journal.record import Record
from upgrader.errors import ApiError, JournalError
from upgrader.model.cluster import Host
from upgrader.model.event import RollbackRequested, RunResumed
from upgrader.ports import Hosts, Kind, Kube, KubeObject

__all__ = [
    "CONTROLLER_RUNS",
    "SECRETS",
    "SECRET_BYTES",
    "ClusterReplicas",
    "ControllerReplicas",
    "JournalReplica",
    "LocalJournals",
    "Source",
    "is_run",
    "progress",
    "secret_name",
]

SECRETS = Kind("v1", "secrets")
SECRET_BYTES = 1_000_000
"""Limit of a packed journal: a Secret holds 1 MiB. A journal of 4 MiB, which takes no more details, packs to 0.7."""

CONTROLLER_RUNS = "/etc/kubernetes/upgrader/runs"

_NAMESPACE = "kube-system"
_LABEL = "upgrader.io/run"
_KEY = "journal.jsonl.gz"
_UNPACKED_BYTES = 64 * 2**20
_RUN = re.compile(r"\d{8}T\d{6}-[A-Za-z0-9]([A-Za-z0-9._-]{0,44}[A-Za-z0-9])?")
_LIST = '[ -d "$1" ] || exit 0; exec ls -1 -- "$1"'


class Source(Protocol):
    """One place that journals can be read from. Every method raises UpgraderError when it is unreachable."""

    @property
    def place(self) -> str:
        """Its name, as in `the cluster`."""
        ...

    def names(self) -> tuple[str, ...]:
        """The runs whose journals it has, oldest first."""
        ...

    def read(self, run: str) -> bytes | None:
        """A run's journal; None when it has none. Raises JournalError for one that can't be unpacked."""
        ...


class JournalReplica(Source, Protocol):
    """One place outside this machine that keeps journals."""

    def write(self, run: str, content: bytes) -> None:
        """Store a run's journal, replacing the old one. Raises JournalError where another machine has resumed since."""
        ...

    def remove(self, run: str) -> None:
        """Delete a run's journal; one that isn't there is fine."""
        ...


class ClusterReplicas:
    """One Secret for each run. Not a ConfigMap: a journal may quote confidential text, such as a container's log.

    Its resourceVersion shows when two machines write the same one, as with the lock.
    """

    place = "the cluster"

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._versions: dict[str, str] = {}

    def names(self) -> tuple[str, ...]:
        found = self._kube.list(SECRETS, _NAMESPACE, labels=_LABEL)
        return _sorted(item["metadata"]["labels"][_LABEL] for item in found)

    def read(self, run: str) -> bytes | None:
        found = self._kube.get(SECRETS, secret_name(run), _NAMESPACE)
        return None if found is None else _unpacked(found)

    def write(self, run: str, content: bytes) -> None:
        packed = gzip.compress(content, mtime=0)
        if len(packed) > SECRET_BYTES:
            raise JournalError(
                f"it has {len(packed)} bytes when packed, more than a Secret may hold",
                remedy="The journal in the run's folder is complete: keep it.",
            )
        if run not in self._versions:
            self._refresh(run, content)
        try:
            self._put(run, packed)
        except ApiError as error:
            # 409: changed since it was read, perhaps by our own request whose answer was lost. 404: removed.
            if error.status not in (404, 409):
                raise
            self._refresh(run, content)
            self._put(run, packed)

    def remove(self, run: str) -> None:
        self._kube.delete(SECRETS, secret_name(run), _NAMESPACE)

    def _refresh(self, run: str, content: bytes) -> None:
        self._versions.pop(run, None)
        found = self._kube.get(SECRETS, secret_name(run), _NAMESPACE)
        if found is not None:
            _check_grown(_unpacked(found), content, self.place)
            self._versions[run] = found["metadata"]["resourceVersion"]

    def _put(self, run: str, packed: bytes) -> None:
        version = self._versions.get(run)
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "upgrader.io/journal",
            "metadata": {
                "name": secret_name(run),
                "labels": {"app.kubernetes.io/managed-by": "upgrader", _LABEL: run},
                **({"resourceVersion": version} if version else {}),
            },
            "data": {_KEY: base64.b64encode(packed).decode()},
        }
        put = self._kube.replace if version else self._kube.create
        self._versions[run] = put(SECRETS, manifest, _NAMESPACE)["metadata"]["resourceVersion"]


class ControllerReplicas:
    """Files on one controller's disk, which don't need the API; only root can read them."""

    def __init__(self, hosts: Hosts, host: Host) -> None:
        self._hosts = hosts
        self._host = host

    @property
    def place(self) -> str:
        return self._host.name

    def names(self) -> tuple[str, ...]:
        listed = self._hosts.run(self._host, ["sh", "-c", _LIST, "sh", CONTROLLER_RUNS])
        return _sorted(listed.stdout.splitlines())

    def read(self, run: str) -> bytes | None:
        return self._hosts.read(self._host, f"{CONTROLLER_RUNS}/{run}/{JOURNAL}")

    def write(self, run: str, content: bytes) -> None:
        before = self.read(run)
        if before is None:
            self._hosts.run(self._host, ["install", "-d", "-m", "0700", CONTROLLER_RUNS, f"{CONTROLLER_RUNS}/{run}"])
        else:
            _check_grown(before, content, self.place)
        self._hosts.write(self._host, f"{CONTROLLER_RUNS}/{run}/{JOURNAL}", content, mode=0o600)

    def remove(self, run: str) -> None:
        self._hosts.run(self._host, ["rm", "-rf", "--", f"{CONTROLLER_RUNS}/{run}"])


class LocalJournals:
    """This machine's cluster folder, for reading only: the Journal itself writes there."""

    place = "this folder"

    def __init__(self, runs: Path) -> None:
        self._runs = runs

    def names(self) -> tuple[str, ...]:
        return _sorted(path.parent.name for path in self._runs.glob(f"*/{JOURNAL}"))

    def read(self, run: str) -> bytes | None:
        path = self._runs / run / JOURNAL
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JournalError(f"{path} can't be read: {error.strerror}") from error


def is_run(name: str) -> bool:
    """Whether this is a run's name. It becomes a path on several machines, so nothing else is accepted."""
    return _RUN.fullmatch(name) is not None


def secret_name(run: str) -> str:
    """The Secret that holds a run's journal; names of objects have no capitals."""
    return f"upgrader.run.{run.lower()}"


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(filter(is_run, names)))


def _unpacked(found: KubeObject) -> bytes:
    try:
        packed = base64.b64decode((found.get("data") or {})[_KEY], validate=True)
        unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        content = unpacker.decompress(packed, _UNPACKED_BYTES)
        if not unpacker.eof:
            raise ValueError("it is truncated or too long")
    except (KeyError, ValueError, zlib.error) as error:
        name = found["metadata"]["name"]
        raise JournalError(
            f"Secret {_NAMESPACE}/{name} holds no journal that can be unpacked: {error}",
            remedy=f"kubectl -n {_NAMESPACE} delete secret {name} (other replicas of the journal are not affected).",
        ) from error
    return content


def progress(records: Sequence[Record]) -> tuple[int, int]:
    """How far a journal goes, for comparison: how often the run was resumed, then its length.

    Only the holder of the cluster's lock resumes a run, so what another machine wrote past that point is outdated,
    however long it is.
    """
    return sum(isinstance(record.event, RunResumed | RollbackRequested) for record in records), len(records)


def _check_grown(before: bytes, content: bytes, place: str) -> None:
    """Never replace what another machine has written since."""
    if content.startswith(before):
        return
    (theirs, _), (ours, _) = (
        progress(parse_journal(each, where)) for each, where in ((before, place), (content, "this run's folder"))
    )
    if theirs >= ours:
        raise JournalError(
            f"{place} has another journal of this run: another machine has resumed it",
            remedy="Check what it did: upgrader status. Only one machine may continue a run.",
        )
