"""Asks controllers for what only they know while there is no API: one command over SSH each, all at once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from upgrader.errors import HostError
from upgrader.model.cluster import Cluster, Host
from upgrader.onhost.sending.decoder import decode
from upgrader.onhost.sending.host_facts import Examined, HostFacts
from upgrader.onhost.sending.shipped_program import program
from upgrader.ports import Hosts

__all__ = ["examine", "examine_all"]

_SECONDS = 25.0
"""For connecting and asking. The program on the host bounds each of its questions, and all of them to 9 s."""

_NOT_FOUND = 127


def examine(hosts: Hosts, host: Host, now: Callable[[], float] = time.time) -> HostFacts:
    """One controller's facts; changes nothing there. Raises HostUnreachable or HostError."""
    sent = now()
    done = hosts.run(host, [host.python, "-I", "-"], stdin=program(), timeout_seconds=_SECONDS, check=False)
    received = now()
    if done.exit_status == _NOT_FOUND or host.python in done.stderr.partition("\n")[0]:
        raise HostError(
            f"{host.name}: {host.python} can't be run there: {done.stderr.strip()}",
            remedy="Install python3 on it: Ansible, and the examination of a controller, need it. Where it is "
            "elsewhere, set ansible_python_interpreter in the inventory.",
        )
    if done.exit_status:
        last = done.stderr.strip().rpartition("\n")[2] or "no output"
        raise HostError(f"{host.name}: the examination ended with {done.exit_status}: {last}")
    try:
        return decode(json.loads(done.stdout), sent, received)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HostError(
            f"{host.name}: what the examination answered can't be understood: {type(error).__name__}: {error}"
        ) from error


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
