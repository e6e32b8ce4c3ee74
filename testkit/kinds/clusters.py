"""A lab of a kind, as kubeadm made it: the beginning of the whole way."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testkit.command import upgrader
from testkit.kinds.catalogue import Kind
from testkit.lab_cluster import OLD, LabCluster

__all__ = ["cluster_of"]


@contextmanager
def cluster_of(kind: Kind, program: Path | None = None) -> Iterator[LabCluster]:
    """A new lab that is of its kind, and not adopted; removed at the end. `program` is what the kind needs, if it does.

    Raises AssertionError where the lab isn't of its kind.
    """
    with tempfile.TemporaryDirectory() as home:
        cluster = LabCluster(f"kinds-{kind.name}-{os.getpid()}", Path(home), Path(home) / "kept")
        try:
            cluster.lab("up", "--kubernetes", OLD, *kind.switches)
            if kind.prepare:
                kind.prepare(cluster)
            if kind.program and program:
                kind.program.install(cluster, program)
            for proof in kind.proofs:
                proof(cluster)
            yield cluster
        finally:
            upgrader("-C", home, "lab", "down", "--force", "--name", cluster.name)
