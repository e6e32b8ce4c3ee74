"""The last log lines of a kubelet that doesn't become Ready."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.ports import Hosts

__all__ = ["KubeletLog"]

_COMMAND = ("journalctl", "--unit", "kubelet", "--no-pager", "--output", "cat", "--lines", "200")
_ERROR = re.compile(r"[EF]\d{4} |.*\b[Ee]rror\b")
_LINES = 2
_CHARACTERS = 300


@dataclass(frozen=True)
class KubeletLog:
    """Reads it over SSH."""

    hosts: Hosts
    machines: Mapping[str, Host]

    def last_errors(self, node: str) -> str:
        """Its last lines that tell of an error, or else its last line; or why they can't be read."""
        host = self.machines.get(node)
        if host is None:
            return "its log can't be read: the inventory doesn't list the node"
        try:
            written = self.hosts.run(host, _COMMAND).stdout.splitlines()
        except HostError as error:
            return f"its log can't be read: {error.message}"
        told = [line for line in written if _ERROR.match(line)] or written[-1:]
        return " | ".join(line.strip()[:_CHARACTERS] for line in told[-_LINES:])
