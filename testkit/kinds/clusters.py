"""A lab of a kind, as kubeadm made it: the start of the test from end to end."""

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
    """A new lab of this kind, not adopted; removed at the end. `program` is the kind's program, if it needs one.

    Raises AssertionError if the lab isn't of its kind.
    """
    with tempfile.TemporaryDirectory() as home:
        name = f"kinds-{kind.name}-{os.getpid()}"
        cluster = LabCluster(name, Path(home), Path(home) / "kept", components=kind.components)
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
