"""No backup passes through a sudo that would keep it in its log, in clear."""

from __future__ import annotations

from collections.abc import Iterable

from upgrader.model.cluster import Host
from upgrader.onhost.sending.sent_program import SentProgram
from upgrader.ports import Hosts

__all__ = ["require_no_log"]

_SECONDS = 60.0
_PROGRAM = SentProgram("sudo_log", "common", "sudo's log", "Nothing was changed.")


def require_no_log(hosts: Hosts, sources: Iterable[Host]) -> None:
    """Raise HostError for a host whose sudo logs what its commands print. A restore isn't refused: it can't wait."""
    for host in sources:
        if host.become:
            _PROGRAM.answer(hosts, host, "output", seconds=_SECONDS)
