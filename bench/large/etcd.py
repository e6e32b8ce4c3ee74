"""Writes objects into a lab's etcd, past the API server: a hundred thousand in minutes."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterable, Iterator
from pathlib import Path

import urllib3

from testkit.lab_cluster import LabCluster

__all__ = ["Etcd", "batches"]

_PKI = "/etc/kubernetes/pki/etcd"
_MOST_OPERATIONS = 100
"""etcd's own limit is 128 in a transaction."""
_MOST_BYTES = 1_000_000
"""etcd's own limit is 1.5 MiB in a request."""


class Etcd:
    """The etcd of a lab's only controller, asked through its JSON gateway with a client certificate of the node."""

    def __init__(self, cluster: LabCluster, address: str, folder: Path) -> None:
        """`folder` gets the key, and must be readable to nobody else."""
        for name in ("ca.crt", "healthcheck-client.crt", "healthcheck-client.key"):
            (folder / name).write_text(cluster.on_controller("cat", f"{_PKI}/{name}"))
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        context.load_cert_chain(folder / "healthcheck-client.crt", folder / "healthcheck-client.key")
        self._pool = urllib3.HTTPSConnectionPool(address, 2379, ssl_context=context, retries=False, timeout=60.0)

    def close(self) -> None:
        """Close the connection."""
        self._pool.close()

    def put(self, objects: Iterable[tuple[str, bytes]]) -> int:
        """Write each (key, value); returns how many. Raises RuntimeError for what etcd refuses."""
        written = 0
        for batch in batches(objects):
            operations = [{"requestPut": {"key": _text(key.encode()), "value": _text(value)}} for key, value in batch]
            body = json.dumps({"success": operations})
            answer = self._pool.request("POST", "/v3/kv/txn", body=body)
            if answer.status != 200:
                raise RuntimeError(f"etcd refused {batch[0][0]} and those after it: {answer.data[:300]!r}")
            written += len(batch)
        return written


def batches(objects: Iterable[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    """The same in groups that etcd takes at once."""
    batch, size = list[tuple[str, bytes]](), 0
    for key, value in objects:
        if batch and (len(batch) == _MOST_OPERATIONS or size + len(value) > _MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((key, value))
        size += len(value)
    if batch:
        yield batch


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
