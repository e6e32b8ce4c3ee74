"""Whether this host has the memory and the disk space that a rehearsal needs."""

from __future__ import annotations

import os
import re
import shutil

from upgrader.onhost.common.questions import Failed

__all__ = ["MARGIN_BYTES", "require_disk", "require_memory"]

MARGIN_BYTES = 256 << 20
_KUBELET, _CONTAINERD = "/var/lib/kubelet", "/var/lib/containerd"
_NODE_PERCENT, _IMAGE_PERCENT = 10, 15
"""By default, a kubelet evicts pods where less is free of the disk of its own folder (`nodefs.available`), or of the
images' disk (`imagefs.available`), also if that is the same one. Then it removes images that no container uses, too.
"""


def require_memory(wanted: int) -> None:
    """Raise Failed unless so many bytes are available, and some more."""
    with open("/proc/meminfo", encoding="ascii") as file:
        found = re.search(r"MemAvailable:\s+(\d+) kB", file.read())
    available = int(found.group(1)) * 1024 if found else 0
    if available < wanted + MARGIN_BYTES:
        raise Failed(
            f"{available >> 20:,} MiB of memory are available, {(wanted + MARGIN_BYTES) >> 20:,} MiB are needed"
        )


def require_disk(folder: str, wanted: int) -> None:
    """Raise Failed unless the disk of this folder, which may be missing yet, has so many bytes free, and some more: as
    many as a kubelet wants, if it uses the same disk.
    """
    there = folder
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    disk = shutil.disk_usage(there)
    if disk.free < wanted + MARGIN_BYTES:
        raise Failed(
            f"{folder} has {disk.free >> 20:,} MiB of free space, {(wanted + MARGIN_BYTES) >> 20:,} MiB are needed"
        )
    percent = _left_free(there)
    kept = disk.total * percent // 100
    if percent and disk.free < wanted + kept:
        raise Failed(
            f"{folder} has {disk.free >> 20:,} MiB of free space, {(wanted + kept) >> 20:,} MiB are needed: with "
            f"less than {percent} % free, the kubelet evicts pods"
        )


def _left_free(folder: str) -> int:
    """How many percent of the disk of a folder are left to a kubelet; 0 if it has no use for that disk."""
    if not os.path.isdir(_KUBELET):
        return 0
    used = ((_KUBELET, _NODE_PERCENT), (_CONTAINERD, _IMAGE_PERCENT))
    return max((percent for place, percent in used if os.path.isdir(place) and _on_one_disk(place, folder)), default=0)


def _on_one_disk(one: str, other: str) -> bool:
    return os.stat(one).st_dev == os.stat(other).st_dev
