"""One node as a systemd-nspawn machine: switch on, cut its power, shut down. Its disk is a folder that stays.

The root is an overlay (the shared Debian root below, the node's own folder above) in a mount namespace that ends with
the machine. Folders that don't work on an overlay are bind-mounted from plain folders.
"""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from upgrader.errors import LabError
from upgrader.lab import bridge, cgroups
from upgrader.lab.command_runner import CommandRunner
from upgrader.lab.existing_labs import lab_dir, write_atomically
from upgrader.lab.host_capabilities import HostCapabilities
from upgrader.lab.spec import Node, Placement

__all__ = ["BOUND", "NspawnMachine", "machine_of", "record_lower"]

# Folder on the node's disk → path in the node.
BOUND = {
    "containerd": "/var/lib/containerd",
    "kubelet": "/var/lib/kubelet",
    "etcd": "/var/lib/etcd",
    "kubernetes": "/etc/kubernetes",
    "cni": "/etc/cni/net.d",
}
_SHUTDOWN_SIGNAL = signal.SIGRTMIN + 4  # systemd: start poweroff.target


@dataclass(frozen=True)
class NspawnMachine:
    """A node with its place on disk: `disk` holds upper, work, root and the bound folders; `lower` is topmost first."""

    node: Node
    disk: Path
    lower: tuple[Path, ...]
    bridge: str

    @property
    def group(self) -> str:
        """Name of its control group."""
        return f"{self.bridge}-{self.node.name}"

    def running(self) -> bool:
        """Whether the machine is on: its recorded supervisor lives."""
        return self._recorded() is not None

    def switched_on(self) -> float:
        """When it was switched on, in seconds since the epoch; infinity while it is off."""
        return (self.disk / "process.json").stat().st_mtime if self.running() else math.inf

    def start(self, runner: CommandRunner, facts: HostCapabilities) -> None:
        """Switch it on; returns when its first process runs, which is long before sshd does."""
        if self.running():
            return
        self.clear()
        cgroups.create(self.group)
        pid = runner.spawn(["sh", "-c", self._script(facts)], self.disk / "console.log")
        write_atomically(self.disk / "process.json", json.dumps({"pid": pid, "started": _started(pid)}))
        self._wait_for_init(pid, deadline_seconds=20)

    def crash(self) -> None:
        """Cut the power: every process of the node ends at once, without another write."""
        init = self._init()
        if init:
            _kill(init)
        self.clear()

    def stop(self, deadline_seconds: float = 60) -> None:
        """Shut it down in order; raises LabError if it takes longer than `deadline_seconds`."""
        init = self._init()
        if init:
            os.kill(init, _SHUTDOWN_SIGNAL)
            until = time.monotonic() + deadline_seconds
            while self.running():
                if time.monotonic() > until:
                    raise LabError(f"{self.node.name} did not shut down in {deadline_seconds:.0f} s")
                time.sleep(0.05)
        self.clear()

    def clear(self) -> None:
        """End and remove everything that is left of this machine, however it ended."""
        supervisor = self._recorded()
        if supervisor:
            _kill(supervisor)
        cgroups.kill(self.group)
        bridge.remove_port(self.node)
        cgroups.remove(self.group)
        (self.disk / "process.json").unlink(missing_ok=True)

    def _script(self, facts: HostCapabilities) -> str:
        overlay = (
            f"lowerdir={':'.join(str(path) for path in self.lower)},upperdir={self.disk}/upper,workdir={self.disk}/work"
        )
        nspawn = [
            "systemd-nspawn",
            f"--directory={self.disk}/root",
            "--boot",
            "--quiet",
            "--register=no",
            "--keep-unit",
            "--console=read-only",
            f"--machine={self.node.machine}",
            f"--hostname={self.node.host_name}",
            f"--network-bridge={self.bridge}",
            "--capability=all",
            "--system-call-filter=@raw-io @keyring bpf",
            "--bind=/dev/kmsg",
            "--resolv-conf=off",
            "--timezone=off",
            "--link-journal=no",
            *(f"--bind={self.disk}/{folder}:{path}" for folder, path in BOUND.items()),
        ]
        inner = f"mount -t overlay overlay -o {quote(overlay)} {quote(str(self.disk / 'root'))} && exec {_join(nspawn)}"
        return "\n".join(
            [
                "set -e",
                cgroups.join_script(self.group),
                "export SYSTEMD_NSPAWN_API_VFS_WRITABLE=yes",
                f"exec unshare --mount --propagation private -- sh -c {quote(inner)}",
            ]
        )

    def _wait_for_init(self, supervisor: int, deadline_seconds: float) -> None:
        until = time.monotonic() + deadline_seconds
        while not self._init():
            if _started(supervisor) is None or time.monotonic() > until:
                log = (self.disk / "console.log").read_text(errors="replace").strip()[-600:]
                self.clear()
                raise LabError(f"{self.node.name} did not start: {log or 'systemd-nspawn printed nothing'}")
            time.sleep(0.02)

    def _recorded(self) -> int | None:
        """The supervisor's pid, if the recorded process still has that pid."""
        try:
            value = json.loads((self.disk / "process.json").read_text())
        except FileNotFoundError:
            return None
        pid = int(value["pid"])
        return pid if value["started"] is not None and _started(pid) == value["started"] else None

    def _init(self) -> int | None:
        """The pid, on this machine, of the node's process 1."""
        supervisor = self._recorded()
        if supervisor is None:
            return None
        try:
            children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
            for child in children:
                status = Path(f"/proc/{child}/status").read_text()
                ids = next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
                if len(ids) > 1 and ids[-1] == "1":
                    return int(child)
        except (FileNotFoundError, ProcessLookupError):  # it ended before its file was opened, or before it was read
            return None
        return None


def machine_of(placement: Placement, node: Node) -> NspawnMachine:
    """The machine of a node of a lab, on or off."""
    home = lab_dir(placement.spec.name)
    file = home / "lower.json"
    lower = tuple(Path(path) for path in json.loads(file.read_text())) if file.exists() else ()
    return NspawnMachine(node, home / "nodes" / node.name, lower, placement.prefix)


def record_lower(placement: Placement, lower: Sequence[Path]) -> None:
    """Record the root of a lab: it keeps that one, even if the cache has a newer one at the next boot."""
    file = lab_dir(placement.spec.name) / "lower.json"
    if not file.exists():
        write_atomically(file, json.dumps([str(path) for path in lower]))


def _join(command: Sequence[str]) -> str:
    return " ".join(quote(word) for word in command)


def _started(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if there is none, or only its zombie."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # reap it, if it is a child of this process and has ended
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _kill(pid: int, deadline_seconds: float = 20) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    until = time.monotonic() + deadline_seconds
    while _started(pid) is not None:
        if time.monotonic() > until:
            raise LabError(f"process {pid} does not end {deadline_seconds:.0f} s after SIGKILL")
        time.sleep(0.01)
