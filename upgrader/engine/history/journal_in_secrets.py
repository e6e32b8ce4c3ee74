"""Replicates journals to Secrets in the cluster."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from upgrader.engine.history.journal_replicas import check_grown, sorted_runs
from upgrader.errors import ApiError, JournalError
from upgrader.model.object_purpose import DESCRIPTION
from upgrader.ports import Kind, Kube, KubeObject

__all__ = ["CHUNK_BYTES", "JOURNAL_BYTES", "SECRETS", "ClusterReplicas", "secret_name"]

SECRETS = Kind("v1", "secrets")
CHUNK_BYTES = 256 * 2**10
"""How much of a journal, unpacked, is in one Secret, which holds 1 MiB: so much is sent again with each record."""

JOURNAL_BYTES = 64 * 2**20
"""Limit of a journal. It takes no more details from 4 MiB on."""

_NAMESPACE = "kube-system"
_OURS = {"app.kubernetes.io/managed-by": "upgrader"}
_RUN = "upgrader.io/run"
_CHUNK_OF = "upgrader.io/journal-chunk-of"
"""The label of a chunk has the run, too, but versions that know no chunks don't take one for a journal."""

_WHOLE, _TAIL, _CHUNKS, _CHUNK = "journal.jsonl.gz", "tail.jsonl.gz", "chunks.json", "chunk.gz"
_PURPOSE = (
    "The journal of an upgrader run, for `upgrader status`, `resume` and `rollback` on any machine. `policy.keepRuns` "
    "in upgrader.yaml sets how many are kept."
)
_PURPOSE_OF_CHUNK = "A part of the journal of an upgrader run, which belongs to Secret {name}, and is removed with it."
_NAMES_AT_ONCE = 500


class ClusterReplicas:
    """One Secret for each run. Not a ConfigMap: a journal may quote confidential text, such as a container's log.

    Its resourceVersion shows when two machines write the same one, as with the lock.

    A long journal has its beginning in further, immutable Secrets of `CHUNK_BYTES` each, so that a record costs the
    same however many came before. They are named after their content, and written before the run's own Secret names
    them: of a write that is cut off, and of a machine that was overtaken, only chunks are left that no journal has.
    """

    place = "the cluster"

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._versions: dict[str, str] = {}
        self._chunks: dict[str, set[str]] = {}
        """Run → the chunks that are known to be there."""

    def names(self) -> tuple[str, ...]:
        selector = ",".join(f"{key}={value}" for key, value in _OURS.items())
        found = self._kube.each(SECRETS, _NAMESPACE, labels=selector, at_once=_NAMES_AT_ONCE, metadata_only=True)
        labels = [item["metadata"]["labels"] for item in found]
        # Chunks count, too: a removal that was cut off may have left nothing else, and is completed by the next one.
        return sorted_runs({each.get(_RUN) or each.get(_CHUNK_OF) or "" for each in labels})

    def read(self, run: str) -> bytes | None:
        found = self._kube.get(SECRETS, secret_name(run), _NAMESPACE)
        return None if found is None else self._content(run, found)

    def write(self, run: str, content: bytes) -> None:
        if len(content) > JOURNAL_BYTES:
            raise JournalError(
                f"it has {len(content)} bytes, and at most {JOURNAL_BYTES} are stored in the cluster",
                remedy="Keep the run's folder: the journal there is complete.",
            )
        if run not in self._versions:
            self._refresh(run, content)
        try:
            self._put(run, content)
        except ApiError as error:
            # 409: changed since it was read, perhaps by our own request whose answer was lost. 404: removed.
            if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                raise
            self._refresh(run, content)
            self._put(run, content)

    def remove(self, run: str) -> None:
        self._kube.delete(SECRETS, secret_name(run), _NAMESPACE)
        chunks = self._kube.each(
            SECRETS, _NAMESPACE, labels=f"{_CHUNK_OF}={run}", at_once=_NAMES_AT_ONCE, metadata_only=True
        )
        for name in [item["metadata"]["name"] for item in chunks]:
            self._kube.delete(SECRETS, name, _NAMESPACE)

    def _refresh(self, run: str, content: bytes) -> None:
        self._versions.pop(run, None)
        self._chunks.pop(run, None)
        found = self._kube.get(SECRETS, secret_name(run), _NAMESPACE)
        if found is not None:
            check_grown(self._content(run, found), content, self.place)
            self._versions[run] = found["metadata"]["resourceVersion"]

    def _put(self, run: str, content: bytes) -> None:
        end = (len(content) - 1) // CHUNK_BYTES * CHUNK_BYTES if content else 0
        full = [content[start : start + CHUNK_BYTES] for start in range(0, end, CHUNK_BYTES)]
        chunks = [self._put_chunk(run, number, chunk) for number, chunk in enumerate(full)]
        # A journal without chunks is where versions that know none look for it; they can't take a tail for a journal.
        data = {_TAIL: _packed(content[end:]), _CHUNKS: json.dumps(chunks).encode()} if chunks else {}
        version = self._versions.get(run)
        manifest = _secret(
            secret_name(run),
            "upgrader.io/journal",
            {_RUN: run},
            _PURPOSE,
            data or {_WHOLE: _packed(content)},
            {"resourceVersion": version} if version else {},
        )
        put = self._kube.replace if version else self._kube.create
        self._versions[run] = put(SECRETS, manifest, _NAMESPACE)["metadata"]["resourceVersion"]

    def _put_chunk(self, run: str, number: int, chunk: bytes) -> str:
        """Its name, which no other content has."""
        name = _chunk_name(run, number, chunk)
        known = self._chunks.setdefault(run, set())
        if name in known:
            return name
        purpose = _PURPOSE_OF_CHUNK.format(name=secret_name(run))
        manifest = _secret(name, "upgrader.io/journal-chunk", {_CHUNK_OF: run}, purpose, {_CHUNK: _packed(chunk)})
        try:
            self._kube.create(SECRETS, {**manifest, "immutable": True}, _NAMESPACE)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:  # it is there already
                raise
        known.add(name)
        return name

    def _content(self, run: str, found: KubeObject) -> bytes:
        data = found.get("data") or {}
        try:
            if _CHUNKS not in data:
                return _unpacked(data, _WHOLE, JOURNAL_BYTES)
            names = json.loads(base64.b64decode(data[_CHUNKS], validate=True))
            chunks = self._read_chunks(run, names)
            return b"".join(chunks) + _unpacked(data, _TAIL, CHUNK_BYTES)
        except (KeyError, ValueError, TypeError, RecursionError, zlib.error) as error:
            name = found["metadata"]["name"]
            delete = f"kubectl -n {_NAMESPACE} delete secret {name}"
            raise JournalError(
                f"Secret {_NAMESPACE}/{name} has no readable journal: {error}",
                remedy=f"{delete} (other replicas of the journal are not affected).",
            ) from error

    def _read_chunks(self, run: str, names: list[str]) -> list[bytes]:
        found = self._kube.list(SECRETS, _NAMESPACE, labels=f"{_CHUNK_OF}={run}")
        there = {item["metadata"]["name"]: item.get("data") or {} for item in found}
        chunks = []
        for number, name in enumerate(names):
            if name not in there:
                raise ValueError(f"its chunk, Secret {name}, is missing")
            chunk = _unpacked(there[name], _CHUNK, CHUNK_BYTES)
            if name != _chunk_name(run, number, chunk):
                raise ValueError(f"its chunk, Secret {name}, was changed after it was written")
            chunks.append(chunk)
        return chunks


def secret_name(run: str) -> str:
    """The Secret that holds a run's journal; names of objects have no capitals."""
    return f"upgrader.run.{run.lower()}"


def _chunk_name(run: str, number: int, chunk: bytes) -> str:
    return f"{secret_name(run)}.{number}-{hashlib.sha256(chunk).hexdigest()[:32]}"


def _secret(
    name: str,
    of_type: str,
    labels: Mapping[str, str],
    purpose: str,
    data: Mapping[str, bytes],
    meta: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": of_type,
        "metadata": {
            "name": name,
            "labels": {**_OURS, **labels},
            "annotations": {DESCRIPTION: purpose},
            **(meta or {}),
        },
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def _packed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _unpacked(data: Mapping[str, str], key: str, most: int) -> bytes:
    """Raises KeyError, ValueError or zlib.error."""
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    content = unpacker.decompress(base64.b64decode(data[key], validate=True), most + 1)  # the end comes after the last
    if not unpacker.eof or len(content) > most:
        raise ValueError("it is truncated or too long")
    return content
