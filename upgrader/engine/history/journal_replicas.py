"""Replicas of a run's journal outside the folder of the machine that runs it: in the cluster, and on controllers.

Copies of one journal are beginnings of each other, as it only ever grows. They part where a machine died with records
that no copy had yet, and another one went on: the journal that was gone on with more often is the one that counts,
and what two machines wrote that went on equally often is never written over.
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
"""What a packed journal may have: a Secret holds 1 MiB. One of 4 MiB, from where it takes no details, has some 0.7."""

CONTROLLER_RUNS = "/etc/kubernetes/upgrader/runs"

_NAMESPACE = "kube-system"
_LABEL = "upgrader.io/run"
_KEY = "journal.jsonl.gz"
_UNPACKED_BYTES = 64 * 2**20
_RUN = re.compile(r"\d{8}T\d{6}-[A-Za-z0-9]([A-Za-z0-9._-]{0,44}[A-Za-z0-9])?")
_LIST = '[ -d "$1" ] || exit 0; exec ls -1 -- "$1"'


class Source(Protocol):
    """One place that journals can be read from. Every method raises UpgraderError when it can't be reached."""

    @property
    def place(self) -> str:
        """Its name, as in `the cluster`."""
        ...

    def names(self) -> tuple[str, ...]:
        """The runs that it has a journal of, oldest first."""
        ...

    def read(self, run: str) -> bytes | None:
        """A run's journal; None when it has none. Raises JournalError for one that can't be unpacked."""
        ...


class JournalReplica(Source, Protocol):
    """One place outside this machine that keeps copies."""

    def write(self, run: str, content: bytes) -> None:
        """Keep a run's journal in place of what it has. Raises JournalError where another machine has gone on since."""
        ...

    def remove(self, run: str) -> None:
        """Forget a run; one that isn't there is fine."""
        ...


class ClusterReplicas:
    """One Secret for each run. Not a ConfigMap: what a journal quotes, such as a container's log, is not for everyone.

    Two machines that write the same one are told apart by its resourceVersion, as with the lock.
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
            self._look(run, content)
        try:
            self._put(run, packed)
        except ApiError as error:
            # 409: changed since it was read, perhaps by an answer of our own that never came. 404: removed.
            if error.status not in (404, 409):
                raise
            self._look(run, content)
            self._put(run, packed)

    def remove(self, run: str) -> None:
        self._kube.delete(SECRETS, secret_name(run), _NAMESPACE)

    def _look(self, run: str, content: bytes) -> None:
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
    """Files on one controller's disk, which is there when the API isn't; only root can read them."""

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
    """The cluster folder of this machine, to be read beside the others: the Journal itself writes there."""

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
    """Whether this is a run's name: it becomes a path on several machines, so nothing else is taken for one."""
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
            raise ValueError("it is cut off, or far too long")
    except (KeyError, ValueError, zlib.error) as error:
        name = found["metadata"]["name"]
        raise JournalError(
            f"Secret {_NAMESPACE}/{name} holds no journal that can be unpacked: {error}",
            remedy=f"kubectl -n {_NAMESPACE} delete secret {name} (other copies of the journal are not touched).",
        ) from error
    return content


def progress(records: Sequence[Record]) -> tuple[int, int]:
    """How far a journal goes, to be compared: how often the run was gone on with, then its length.

    Each time it was, by whoever held the cluster's lock then; so what another machine wrote past that point is of the
    past, however long it is.
    """
    return sum(isinstance(record.event, RunResumed | RollbackRequested) for record in records), len(records)


def _check_grown(before: bytes, content: bytes, place: str) -> None:
    """What another machine has written since is never replaced."""
    if content.startswith(before):
        return
    (theirs, _), (ours, _) = (
        progress(parse_journal(each, where)) for each, where in ((before, place), (content, "this run's folder"))
    )
    if theirs >= ours:
        raise JournalError(
            f"{place} has another journal of this run: another machine has gone on with it",
            remedy="See what it did: upgrader status. Of two machines, only one should go on.",
        )
