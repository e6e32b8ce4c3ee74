"""The lab that a benchmark, or a test with a lab of its own, works on."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testkit.lab_cluster import LabCluster, make_cluster
from upgrader.lab.existing_labs import labs_root
from upgrader.ports import Kind, Kube

__all__ = ["every_address", "lent_or_new", "nodes_disks", "some_cluster"]

_SERVICES = Kind("v1", "services")


@contextmanager
def some_cluster(lab: Path | None, name: str, *switches: str) -> Iterator[LabCluster]:
    """The lab in that folder (`…/.lab/NAME`), its files restored at the end; or a new one, removed at the end.

    `switches` are further options of `lab up` for the new one.
    """
    with tempfile.TemporaryDirectory() as home:
        if lab is not None:
            folder = lab.resolve()
            cluster = LabCluster(folder.name, folder.parents[1], Path(home))
            cluster.keep_files()
            try:
                yield cluster
            finally:
                cluster.restore_files()
            return
        print("making a lab…", file=sys.stderr, flush=True)
        cluster = make_cluster(f"{name}-{os.getpid()}", Path(home), *switches)
        try:
            yield cluster
        finally:
            cluster.down()


@contextmanager
def lent_or_new(name: str, home: Path, *switches: str) -> Iterator[LabCluster]:
    """The lab that UPGRADER_LAB names (`…/.lab/NAME`), while you write a test; or a new one, removed at the end."""
    lent = os.environ.get("UPGRADER_LAB")
    if lent:
        folder = Path(lent).resolve()
        yield LabCluster(folder.name, folder.parents[1], home / "kept")
        return
    made = make_cluster(f"{name}-{os.getpid()}", home, *switches)
    try:
        yield made
    finally:
        made.down()


def every_address(kube: Kube, controllers: Iterable[str]) -> list[str]:
    """URLs of the API other than the kubeconfig's: the controllers' addresses, and the ClusterIP."""
    service = kube.get(_SERVICES, "kubernetes", "default")
    assert service is not None
    return [*(f"https://{address}:6443" for address in controllers), f"https://{service['spec']['clusterIP']}:443"]


def nodes_disks() -> str:
    """The file system of the nodes' disks ("ext2/ext3", "tmpfs"), as `stat` names it."""
    place = labs_root()
    while not place.exists():
        place = place.parent
    command = ["stat", "--file-system", "--format=%T", str(place)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
