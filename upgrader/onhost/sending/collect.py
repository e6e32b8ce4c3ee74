"""Collects the controllers' facts without the API: one command over SSH each, all concurrently."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from upgrader.errors import HostError
from upgrader.model.cluster import Cluster, Host
from upgrader.onhost.sending.decoder import decode
from upgrader.onhost.sending.host_facts import Examined, HostFacts
from upgrader.onhost.sending.sent_program import SentProgram
from upgrader.ports import Hosts

__all__ = ["examine", "examine_all"]

_SECONDS = 25.0
"""Deadline of the connection and the program, which limits each of its queries, and all of them to 9 s."""

_FACTS = SentProgram(
    "all_facts", "facts", "the machine", "Run the command again. If it fails again, report this message as a bug."
)


def examine(hosts: Hosts, host: Host, now: Callable[[], float] = time.time) -> HostFacts:
    """One controller's facts; changes nothing there. Raises HostUnreachable or HostError."""
    sent = now()
    return _FACTS.read(hosts, host, lambda answer: decode(answer, sent, now()), seconds=_SECONDS)


def examine_all(hosts: Hosts, cluster: Cluster, only: Sequence[str] = ()) -> tuple[Examined, ...]:
    """All controllers, or those named, in the inventory's order; one that can't be examined carries the reason."""
    chosen = [host for host in cluster.controllers if not only or host.name in only]
    with ThreadPoolExecutor(max(1, len(chosen))) as pool:
        return tuple(pool.map(partial(_examined, hosts), chosen))


def _examined(hosts: Hosts, host: Host) -> Examined:
    try:
        return Examined(host, examine(hosts, host))
    except HostError as error:
        return Examined(host, None, error.message, error.remedy)
