"""The processes of these playbooks that are on the node, by a variable that each of their tasks has."""

from __future__ import annotations

import os

__all__ = ["VARIABLE", "playbook_processes"]

VARIABLE = "UPGRADER_NODE_PLAYBOOK"
"""Every play sets it in the environment of its tasks; what they start inherits it, but for systemd's units."""
_CHARACTERS = 200


def playbook_processes(proc: str = "/proc", own: int = 0) -> dict[int, str]:
    """PID → command of each, without this one (`own`) and those that have started it.

    A host has one task of a play at a time: every other process is of another play. Processes of other users and in
    containers don't count: otherwise, any user who may run a pod here could make a playbook wait permanently.
    """
    own = own or os.getpid()
    ours, where = _ancestry(proc, own), _user_and_depth(proc, str(own))
    found = {}
    for name in os.listdir(proc):
        if name.isdigit() and int(name) not in ours and _user_and_depth(proc, name) == where:
            settings = _read(proc, name, "environ").split(b"\0")
            if any(setting.startswith(f"{VARIABLE}=".encode()) for setting in settings):
                command = _read(proc, name, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
                found[int(name)] = command[:_CHARACTERS] or "it is ending"
    return found


def _ancestry(proc: str, pid: int) -> set[int]:
    found: set[int] = set()
    while pid and pid not in found:
        found.add(pid)
        fields = _read(proc, str(pid), "stat").rpartition(b")")[2].split()
        pid = int(fields[1]) if len(fields) > 1 else 0
    return found


def _user_and_depth(proc: str, pid: str) -> tuple[bytes, int]:
    """A process's effective user, and in how many PID namespaces it is: a container has one of its own."""
    lines = (line.partition(b":") for line in _read(proc, pid, "status").splitlines())
    fields = {name: value.split() for name, _, value in lines}
    return b"".join(fields.get(b"Uid", [])[1:2]), len(fields.get(b"NSpid", []))


def _read(proc: str, pid: str, name: str) -> bytes:
    """A file of a process; empty where it has just ended."""
    try:
        with open(os.path.join(proc, pid, name), "rb") as stream:
            return stream.read()
    except OSError:
        return b""
