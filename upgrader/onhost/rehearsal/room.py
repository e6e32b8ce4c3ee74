"""Whether this host has the memory and the disk space that a rehearsal needs."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from functools import partial

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.rehearsal.kubelets_share import kubelets_memory, kubelets_share

__all__ = ["MARGIN_BYTES", "require_disk", "require_memory", "require_no_swap"]

MARGIN_BYTES = 256 << 20
_MEMORY = "/proc/meminfo"
_SWAPS, _CGROUPS = "/proc/swaps", "/sys/fs/cgroup"
_IN_MEMORY = "/dev/zram"


def main(given: str) -> None:
    """`given` is JSON: a `folder`, the disk space (`bytes`) that is needed there, and the `memory` (0: none).

    Prints why that `failed`: all that is missing at once, or {}.
    """
    asked = json.loads(given)
    missing = []  # type: list[str]
    required: list[Callable[[], None]] = [partial(require_disk, asked["folder"], asked["bytes"])]
    if asked["memory"]:
        required[:0] = [partial(require_memory, asked["memory"]), require_no_swap]
    for require in required:
        try:
            require()
        except Failed as error:
            missing.append(str(error))
        except OSError as error:
            missing.append(f"{error.filename or asked['folder']}: {error.strerror or error}")
    sys.stdout.write(json.dumps({"failed": "; ".join(missing)} if missing else {}) + "\n")


def require_memory(wanted: int) -> None:
    """Raise Failed unless so many bytes are available, and some more: as many as a kubelet wants, if there is one."""
    with open(_MEMORY, encoding="ascii") as file:
        found = {name: int(size) << 10 for name, size in re.findall(r"(\w+):\s+(\d+) kB", file.read())}
    available, share = found.get("MemAvailable", 0), kubelets_memory(found.get("MemTotal", 0))
    needed = wanted + max(MARGIN_BYTES, share.kept)
    if available < needed:
        why = f": with less than {share.said} available, the kubelet evicts pods" if share.kept > MARGIN_BYTES else ""
        raise Failed(f"{available >> 20:,} MiB of memory are available, but {needed >> 20:,} MiB are needed{why}")


def require_no_swap() -> None:
    """Raise Failed if a rehearsal's memory, which has Secrets, could be written to a disk that it doesn't remove them
    from: its unit may use no swap, which only control groups of version 2 know.
    """
    try:
        with open(_SWAPS, encoding="utf-8", errors="replace") as file:
            devices = [line.split()[0] for line in file.readlines()[1:] if line.strip()]
    except FileNotFoundError:
        return  # a kernel without swap
    places = [each for each in devices if not each.startswith(_IN_MEMORY)]
    known = glob.glob(os.path.join(_CGROUPS, "memory.swap.max")) + glob.glob(
        os.path.join(_CGROUPS, "*", "memory.swap.max")
    )
    if places and not known:
        raise Failed(
            f"the memory of a rehearsal, which has Secrets, could be written to {', '.join(places)}: this host's "
            "control groups can't forbid swap (memory.swap.max is missing). Switch swap off for the rehearsal: "
            "swapoff -a"
        )


def require_disk(folder: str, wanted: int) -> None:
    """Raise Failed unless the disk of this folder, which may be missing yet, has so many bytes free, and some more for
    logs, of which etcd allocates much beforehand; and beside all of them, as many as a kubelet wants, if it uses the
    same disk.
    """
    there = folder
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    disk = shutil.disk_usage(there)
    share = kubelets_share(there, disk.total)
    needed = wanted + MARGIN_BYTES + share.kept
    if disk.free < needed:
        why = f": with less than {share.said} free, the kubelet evicts pods, or removes images" if share.kept else ""
        raise Failed(f"{folder} has {disk.free >> 20:,} MiB of free space, but {needed >> 20:,} MiB are needed{why}")
