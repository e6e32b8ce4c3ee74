"""What a recovery does on the machines themselves; each of it can be done again without harm."""

from __future__ import annotations

import posixpath
from collections.abc import Collection
from dataclasses import dataclass

from upgrader.contract.checkpoints import CHECKPOINT_OF
from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.onhost.node.disk_layout import is_foreign
from upgrader.onhost.sending.sent_program import SentProgram
from upgrader.ports import Hosts
from upgrader.recover.restoring.next_actions import Action, StartStandby, StartUnit, StopInstances

__all__ = ["HostActions"]

_START_SECONDS = 60.0
_STOP = SentProgram(
    "stop_pods",
    "facts",
    "kube-apiserver's pods",
    "Check the container runtime: systemctl status containerd",
)

_START = 'systemctl reset-failed "$2" 2>/dev/null; exec systemctl start $1 "$2"'
"""A unit that failed too often in a row is refused a start until that is forgotten."""

_ETCD = "etcd"
"""A service that has started only once it has a quorum, for which others may have to be started."""

_REMOVE = 'set -eu; rm -f -- "$1"; sync -- "$(dirname -- "$1")"'


@dataclass(frozen=True)
class HostActions:
    """The controllers. Every method raises HostUnreachable or HostError."""

    hosts: Hosts

    def carry_out(self, action: Action) -> None:
        """Do one thing that was decided on."""
        match action:
            case StartUnit(host, unit):
                waits = "--no-block" if unit == _ETCD else ""
                self.hosts.run(host, ["sh", "-c", _START, "sh", waits, unit], timeout_seconds=_START_SECONDS)
            case StartStandby(host, generation, path):
                self._put(host, generation.manifest, path)
            case StopInstances(host, pods):
                self._stop(host, pods)

    def deactivate(self, host: Host, path: str) -> None:
        """Remove a standby pod's manifest: the kubelet ends its pod. One that isn't there is fine."""
        self._must_be_ours(host, path)
        self.hosts.run(host, ["sh", "-c", _REMOVE, "sh", path])

    def _stop(self, host: Host, uids: Collection[str]) -> None:
        _STOP.read(self.hosts, host, lambda answer: answer["stopped"], *sorted(uids), seconds=_START_SECONDS)

    def _put(self, host: Host, source: str, path: str) -> None:
        content = self.hosts.read(host, source)
        if content is None:
            raise HostError(
                f"{host.name}: {source} is gone", remedy="Run the same command again: it may find another generation."
            )
        self._must_be_ours(host, path)
        self.hosts.run(host, ["mkdir", "-p", "-m", "0700", posixpath.dirname(path)])
        self.hosts.write(host, path, content)

    def _must_be_ours(self, host: Host, path: str) -> None:
        found = self.hosts.read(host, path)
        if found is not None and is_foreign(found):
            raise HostError(
                f"{host.name}: {path} has the name of a standby pod's manifest, but not the label {CHECKPOINT_OF}; it "
                "was not changed",
                remedy="Check that file, and move it out of the folder.",
            )
