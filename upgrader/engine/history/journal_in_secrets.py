"""Replicates journals to Secrets in the cluster."""

from __future__ import annotations

import base64
import gzip
import zlib

from upgrader.engine.history.journal_replicas import check_grown, sorted_runs
from upgrader.errors import ApiError, JournalError
from upgrader.model.object_purpose import DESCRIPTION
from upgrader.ports import Kind, Kube, KubeObject

__all__ = ["SECRETS", "SECRET_BYTES", "ClusterReplicas", "secret_name"]

SECRETS = Kind("v1", "secrets")
SECRET_BYTES = 1_000_000
"""Limit of a packed journal: a Secret holds 1 MiB. A journal of 4 MiB, which takes no more details, packs to 0.7."""

_NAMESPACE = "kube-system"
_LABEL = "upgrader.io/run"
_KEY = "journal.jsonl.gz"
_PURPOSE = (
    "The journal of an upgrader run, for `upgrader status`, `resume` and `rollback` on any machine. `policy.keepRuns` "
    "in upgrader.yaml sets how many are kept."
)
_UNPACKED_BYTES = 64 * 2**20


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
        return sorted_runs(item["metadata"]["labels"][_LABEL] for item in found)

    def read(self, run: str) -> bytes | None:
        found = self._kube.get(SECRETS, secret_name(run), _NAMESPACE)
        return None if found is None else _unpacked(found)

    def write(self, run: str, content: bytes) -> None:
        packed = gzip.compress(content, mtime=0)
        if len(packed) > SECRET_BYTES:
            raise JournalError(
                f"it has {len(packed)} bytes when packed, more than fits into a Secret",
                remedy="Keep the run's folder: the journal there is complete.",
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
            check_grown(_unpacked(found), content, self.place)
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
                "annotations": {DESCRIPTION: _PURPOSE},
                **({"resourceVersion": version} if version else {}),
            },
            "data": {_KEY: base64.b64encode(packed).decode()},
        }
        put = self._kube.replace if version else self._kube.create
        self._versions[run] = put(SECRETS, manifest, _NAMESPACE)["metadata"]["resourceVersion"]


def secret_name(run: str) -> str:
    """The Secret that holds a run's journal; names of objects have no capitals."""
    return f"upgrader.run.{run.lower()}"


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
            f"Secret {_NAMESPACE}/{name} has no readable journal: {error}",
            remedy=f"kubectl -n {_NAMESPACE} delete secret {name} (other replicas of the journal are not affected).",
        ) from error
    return content
