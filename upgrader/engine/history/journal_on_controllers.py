"""Replicates journals to the controllers' disks."""

from __future__ import annotations

from upgrader.engine.history.journal_replicas import check_grown, sorted_runs
from upgrader.engine.journal.journal_file import JOURNAL
from upgrader.model.cluster import Host
from upgrader.ports import Hosts

__all__ = ["CONTROLLER_RUNS", "ControllerReplicas"]

CONTROLLER_RUNS = "/etc/kubernetes/upgrader/runs"

_LIST = '[ -d "$1" ] || exit 0; exec ls -1 -- "$1"'


class ControllerReplicas:
    """Files on one controller's disk, which don't need the API; only root can read them."""

    def __init__(self, hosts: Hosts, host: Host) -> None:
        self._hosts = hosts
        self._host = host

    @property
    def place(self) -> str:
        return self._host.name

    def names(self) -> tuple[str, ...]:
        listed = self._hosts.run(self._host, ["sh", "-c", _LIST, "sh", CONTROLLER_RUNS])
        return sorted_runs(listed.stdout.splitlines())

    def read(self, run: str) -> bytes | None:
        return self._hosts.read(self._host, f"{CONTROLLER_RUNS}/{run}/{JOURNAL}")

    def write(self, run: str, content: bytes) -> None:
        before = self.read(run)
        if before is None:
            self._hosts.run(self._host, ["install", "-d", "-m", "0700", CONTROLLER_RUNS, f"{CONTROLLER_RUNS}/{run}"])
        else:
            check_grown(before, content, self.place)
        self._hosts.write(self._host, f"{CONTROLLER_RUNS}/{run}/{JOURNAL}", content, mode=0o600)

    def remove(self, run: str) -> None:
        self._hosts.run(self._host, ["rm", "-rf", "--", f"{CONTROLLER_RUNS}/{run}"])
