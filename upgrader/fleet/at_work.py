"""Whether a process may be changing a cluster: its locks tell that also of a run whose journal has no end."""

from __future__ import annotations

from pathlib import Path

from upgrader.app.wiring import open_api
from upgrader.engine.locks.cluster_lock import read_lease
from upgrader.engine.locks.folder_lock import folder_holder, lock_identity
from upgrader.errors import UpgraderError
from upgrader.ports import Kube

__all__ = ["at_work", "unknown", "works"]

_SECONDS = 5.0


def at_work(kubeconfig: Path, folder: Path) -> str:
    """Why a process may be changing the cluster that a kubeconfig leads to, whose cluster folder that is; "": none is,
    as both of its locks are free.
    """
    try:
        with open_api(kubeconfig, _SECONDS) as kube:
            return works(kube, folder)
    except UpgraderError as error:
        return unknown(error)


def works(kube: Kube, folder: Path) -> str:
    """The same, of the cluster with this API."""
    try:
        lease = read_lease(kube)
        here = folder_holder(folder)  # after the Lease: a process of this folder holds this lock longer
    except UpgraderError as error:
        return unknown(error)
    if here is not None:
        return f"{folder} is locked by {here.holder}"
    if lease is None:
        return "its lock, the Lease kube-system/upgrader, was removed"  # what still works creates it again
    if lease.holder is None or (lease.holder.folder_lock and lease.holder.folder_lock == lock_identity(folder)):
        return ""
    return f"its lock, the Lease kube-system/upgrader, is held by {lease.holder}"


def unknown(error: UpgraderError) -> str:
    """The same, where the locks can't be read."""
    return f"it is unknown whether it is in progress: {error.message}"
