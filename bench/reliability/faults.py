"""The faults: those between upgrader and the API, and those of machines."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from testkit.faults.proxy import Fault, FaultProxy
from testkit.faults.scenario import Disturbance
from testkit.lab_cluster import LabCluster
from upgrader.engine.history.journal_on_controllers import CONTROLLER_RUNS
from upgrader.lab.lifecycle import Lab

__all__ = ["MACHINE_FAULTS", "PROXY_FAULTS", "on_machines", "through"]

PROXY_FAULTS = tuple(map(str, Fault))

MACHINE_FAULTS = (
    "etcd killed",
    "kubelet stopped",
    "controller's power cut",
    "network to the controller cut",
    "operator's disk full",
    "controller's disk full",
)


_DISK_SECONDS = 90.0
"""A full disk stays full: the run has to write meanwhile."""


def through(proxy: FaultProxy) -> Mapping[str, Disturbance]:
    """What the proxy can do."""
    return {str(each): Disturbance(each, partial(proxy.set, each), partial(proxy.set, None)) for each in Fault}


@contextlib.contextmanager
def on_machines(cluster: LabCluster) -> Iterator[Mapping[str, Disturbance]]:
    """What can happen to the controller, and to the machine of the run; undone afterwards."""
    runs = cluster.folder / "runs"
    filler = runs / "filler"
    shell = partial(cluster.on_controller, "sh", "-c")
    port = f"vb-{Lab.find(cluster.name).placement.nodes[0].machine}"

    def cut() -> None:
        _must("ip", "link", "set", port, "down")

    def reconnect() -> None:
        _must("ip", "link", "set", port, "up")

    def fill_ours() -> None:
        # A small file system over the runs' folder: a real full disk, but not this machine's.
        with contextlib.suppress(OSError):
            filler.write_bytes(b"x" * 2**21)

    small = f"mkdir -p {CONTROLLER_RUNS} && mount -t tmpfs -o size=4k small {CONTROLLER_RUNS}"
    end_etcd = "kill -9 $(pidof etcd)"  # the node's own process, and an error where there is none
    found = [
        Disturbance("etcd killed", partial(shell, end_etcd), _nothing),
        Disturbance(
            "kubelet stopped", partial(shell, "systemctl stop kubelet"), partial(shell, "systemctl start kubelet")
        ),
        Disturbance(
            "controller's power cut",
            partial(cluster.lab, "crash", "controller-1"),
            partial(cluster.lab, "boot", "controller-1"),
        ),
        Disturbance("network to the controller cut", cut, reconnect),
        Disturbance("operator's disk full", fill_ours, partial(filler.unlink, missing_ok=True), _DISK_SECONDS),
        Disturbance(
            "controller's disk full", partial(shell, small), partial(shell, f"umount {CONTROLLER_RUNS}"), _DISK_SECONDS
        ),
    ]
    yield {each.name: each for each in found}


@contextlib.contextmanager
def small_disk(runs: Path) -> Iterator[None]:
    """A file system of 1 MiB over the runs' folder."""
    _must("mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "small", str(runs))
    try:
        yield
    finally:
        _must("umount", str(runs))


def _nothing() -> None:
    """Nothing to do: the kubelet restarts it."""


def _must(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
