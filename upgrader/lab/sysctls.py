"""Kernel settings of this machine that labs need or change, restored with the removal of the last lab.

Nodes share the machine's kernel. Its limit of inotify instances is per user, and all nodes are one user: three nodes
use up the usual 128, after which kube-proxy or etcd fails with "too many open files". Each kubelet sets some itself.
"""

from __future__ import annotations

import json
from pathlib import Path

from upgrader.lab.existing_labs import labs_root, write_atomically

__all__ = ["prepare_kernel", "restore_kernel"]

_AT_LEAST = {"fs/inotify/max_user_instances": 8192, "fs/inotify/max_user_watches": 524288}
_SET_BY_KUBELET = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
_SYS = Path("/proc/sys")


def prepare_kernel() -> None:
    """Remember the settings, unless an earlier lab did, and raise the limits. Call it under the labs' lock."""
    memory = labs_root() / "sysctls.json"
    if not memory.exists():
        before = {name: (_SYS / name).read_text().strip() for name in (*_AT_LEAST, *_SET_BY_KUBELET)}
        write_atomically(memory, json.dumps(before, indent=2) + "\n")
    for name, least in _AT_LEAST.items():
        if int((_SYS / name).read_text()) < least:
            (_SYS / name).write_text(str(least))


def restore_kernel() -> None:
    """Restore the settings from before the first lab. Call it under the labs' lock, when there is no lab."""
    memory = labs_root() / "sysctls.json"
    if memory.exists():
        for name, value in json.loads(memory.read_text()).items():
            (_SYS / name).write_text(value)
        memory.unlink()
