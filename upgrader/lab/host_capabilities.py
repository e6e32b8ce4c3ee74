"""The capabilities of this machine, and whether a lab can run on it."""

from __future__ import annotations

import os
import platform
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from upgrader.built_in_files import lab_folder
from upgrader.errors import LabError
from upgrader.lab.build_cache import cache_root
from upgrader.lab.spec import LabSpec

__all__ = ["HostCapabilities", "host_capabilities", "require"]

_GIB = 1024**3
_CAP_SYS_RESOURCE = 24
_COMMANDS = {
    "ip": "iproute2",
    "mmdebstrap": "mmdebstrap",
    "openssl": "openssl",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "systemd-nspawn": "systemd-container",
    "unshare": "util-linux",
}


@dataclass(frozen=True)
class HostCapabilities:
    """The properties of this machine on which a lab depends. Sizes in bytes."""

    linux: bool
    root: bool
    may_lower_oom_score: bool
    bridge_netfilter: bool
    memory_available: int
    disk_free: int
    missing_packages: tuple[str, ...]


def host_capabilities() -> HostCapabilities:
    """Inspect this machine; changes nothing."""
    linux = platform.system() == "Linux"
    return HostCapabilities(
        linux=linux,
        root=os.geteuid() == 0,
        may_lower_oom_score=linux and bool(_number("/proc/self/status", "CapEff", base=16) >> _CAP_SYS_RESOURCE & 1),
        bridge_netfilter=Path("/proc/sys/net/bridge/bridge-nf-call-iptables").exists(),
        memory_available=_number("/proc/meminfo", "MemAvailable") * 1024 if linux else 0,
        disk_free=shutil.disk_usage(_existing(cache_root())).free,
        missing_packages=tuple(sorted({pkg for command, pkg in _COMMANDS.items() if not shutil.which(command)})),
    )


def require(found: HostCapabilities, spec: LabSpec | None, built: bool) -> None:
    """Raise LabError with one line if a lab of `spec` can't run here; None: for a build, or for existing nodes."""
    if not found.linux:
        raise LabError("the lab needs Linux: its nodes are systemd-nspawn machines", remedy="run it in a Linux VM")
    if not found.root:
        raise LabError("the lab needs root, for namespaces, mounts and network devices", remedy="run it with sudo")
    if found.missing_packages:
        packages = " ".join(found.missing_packages)
        raise LabError(
            f"the lab needs Debian packages that are not installed: {packages}",
            remedy=f"apt-get install {packages}  (all of them: {lab_folder() / 'packages.txt'})",
        )
    if spec and spec.flannel and not found.bridge_netfilter:
        raise LabError(
            "flannel needs the kernel module br_netfilter, which is not loaded",
            remedy="modprobe br_netfilter, or omit --flannel",
        )
    disk = 3 * _GIB if built else 15 * _GIB
    if found.disk_free < disk:
        raise LabError(
            f"the lab needs {disk // _GIB} GiB of free disk at {cache_root()}, but only {found.disk_free / _GIB:.1f} "
            "are free",
            remedy="free some space, or point XDG_CACHE_HOME to a larger disk",
        )
    memory = _memory(spec) if spec else 2 * _GIB
    if found.memory_available < memory:
        raise LabError(
            f"this needs {memory / _GIB:.1f} GiB of free memory, but only {found.memory_available / _GIB:.1f} are free",
            remedy="request fewer nodes, or stop other programs",
        )


def _memory(spec: LabSpec) -> int:
    """Measured use (450 MB the first controller, 360 MB each further one, 75 MB a worker), doubled for workloads."""
    return int(_GIB * (0.6 + 0.9 * spec.controllers + 0.3 * spec.workers))


def _number(file: str, key: str, base: int = 10) -> int:
    match = re.search(rf"^{key}:\s+([0-9a-f]+)", Path(file).read_text(), re.MULTILINE)
    return int(match[1], base) if match else 0


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path
