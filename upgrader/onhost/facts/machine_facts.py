"""The machine under Kubernetes: its services, its disks, its certificates, its clock."""

from __future__ import annotations

import functools
import os
import re
import time
from typing import Any

from upgrader.onhost.common.kubelet_file import configuration_file
from upgrader.onhost.common.questions import Failed, attempt, command, read

FOLDERS = ("/", "/etc/kubernetes", "/var/lib/etcd", "/var/lib/containerd", "/var/lib/kubelet", "/var/log")
_PROPERTIES = (
    "ActiveState,SubState,Result,ExecMainStatus,LoadState,UnitFileState,StateChangeTimestampMonotonic,NRestarts"
)
_LINES = 12
_CGROUPS = "/sys/fs/cgroup"
_FAIL_V1 = re.compile(r"^failCgroupV1[ \t]*:[ \t]*(true|false)\b", re.MULTILINE | re.IGNORECASE)
"""YAML accepts `True` as well, which Ansible's templates write."""


def properties(name: str) -> dict[str, str]:
    """What systemd knows about a unit, `ActiveState` at least."""
    text = command("systemctl", "show", name, "--no-pager", "--property=" + _PROPERTIES)
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    if not values.get("ActiveState"):
        raise Failed(f"systemctl reports nothing about {name}")
    return values


def unit(name: str) -> dict[str, Any]:
    """A systemd unit, with its last journal lines if it doesn't run."""
    values = properties(name)
    found = {
        "name": name,
        "state": values["ActiveState"],
        "sub_state": values.get("SubState", ""),
        "result": values.get("Result", ""),
        "exit_status": int(values.get("ExecMainStatus") or 0),
        "loaded": values.get("LoadState", ""),
        "enabled": values.get("UnitFileState", ""),
        "restarts": int(values.get("NRestarts") or 0),
        "since": _moment(int(values.get("StateChangeTimestampMonotonic") or 0)),
        "said": [],
    }
    if values["ActiveState"] != "active" or values.get("SubState") != "running":
        found["said"] = attempt(lambda: journal(name, _LINES))
    return found


def journal(name: str, lines: int) -> list[str]:
    """The last lines of a unit's journal, without time and host."""
    text = command("journalctl", "-u", name, "-n", str(lines), "-o", "cat", "--no-pager", "-q")
    return [line for line in text.splitlines() if line.strip()]


def _moment(microseconds: int) -> float | None:
    """A time that systemd counted since boot, converted to the current clock; None for never."""
    return time.time() - (time.monotonic() - microseconds / 1e6) if microseconds else None


def space(root: str, path: str) -> dict[str, Any]:
    """The file system under a folder. The free space is root's, as everything here is written by root."""
    found = os.statvfs(root + path)
    return {
        "path": path,
        "device": os.stat(root + path).st_dev,
        "size": found.f_blocks * found.f_frsize,
        "free": found.f_bfree * found.f_frsize,
        "inodes": found.f_files,
        "inodes_free": found.f_ffree,
        "read_only": bool(found.f_flag & os.ST_RDONLY),
    }


def spaces(root: str) -> list[Any]:
    """The file systems that a control plane writes to; folders that don't exist are left out."""
    return [attempt(functools.partial(space, root, path)) for path in FOLDERS if os.path.isdir(root + path)]


def cgroups(root: str) -> dict[str, Any]:
    """The version of the kernel's cgroups, and the kubelet's setting for version 1."""
    if not os.path.isdir(root + _CGROUPS):
        raise Failed(f"the folder {_CGROUPS} does not exist")
    version = 2 if os.path.exists(root + _CGROUPS + "/cgroup.controllers") else 1
    try:
        text = read(root + configuration_file(root)).decode("utf-8", "replace")
    except FileNotFoundError:
        text = ""
    said = _FAIL_V1.search(text)
    return {"version": version, "fail_v1": said.group(1).lower() == "true" if said else None}


def certificates(root: str) -> list[dict[str, str]]:
    """Every certificate that the control plane uses, as PEM: it is parsed on the other side, which has a library for
    that.

    Only the first one of a file, and never a key: the kubelet's file also contains its key. `real` is where links lead:
    Kubespray's flags name /etc/kubernetes/ssl, to which /etc/kubernetes/pki leads.
    """
    base = len(os.path.realpath(root)) if root else 0
    pki = root + "/etc/kubernetes/pki"
    paths = [os.path.join(folder, name) for folder in (pki, pki + "/etcd") for name in _names(folder)]
    paths = [path for path in paths if path.endswith(".crt")]
    paths.append(root + "/var/lib/kubelet/pki/kubelet-client-current.pem")
    found = []
    for path in paths:
        if not os.path.lexists(path):
            continue
        entry = {"path": path[len(root) :], "real": os.path.realpath(path)[base:]}
        try:
            entry["pem"] = _first(read(path).decode("ascii", "replace"))
        except (OSError, Failed) as error:
            entry["unknown"] = str(error)
        found.append(entry)
    return found


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _first(text: str) -> str:
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    start = text.find(begin)
    stop = text.find(end, start)
    if start < 0 or stop < 0:
        raise Failed("no certificate in it")
    return text[start : stop + len(end)] + "\n"


def booted() -> float:
    """When process 1 started, by the current clock. That is the boot, also if the kernel is shared with others."""
    uptime = float(read("/proc/uptime").split()[0])
    ticks = int(read("/proc/1/stat").rpartition(b")")[2].split()[19])
    return time.time() - (uptime - ticks / os.sysconf("SC_CLK_TCK"))


def manifests(root: str) -> dict[str, Any]:
    """The files that the kubelet reads as static pods (it skips names that begin with a dot)."""
    folder = root + "/etc/kubernetes/manifests"
    if not os.path.isdir(folder):
        return {"exists": False, "files": []}
    return {"exists": True, "files": [name for name in sorted(os.listdir(folder)) if not name.startswith(".")]}
