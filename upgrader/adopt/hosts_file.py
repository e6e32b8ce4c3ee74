"""A controller's /etc/hosts, or another file of its form, as Go's resolver reads it.

getent says less: where only the loopback interface has IPv6, glibc answers 127.0.0.1 for a name whose entry is `::1`.
Programs in Go, as most that use the API are, connect to the address that the file has.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Mapping

from upgrader.model.cluster import Host
from upgrader.ports import Hosts

__all__ = ["HOSTS_FILE", "read_hosts_file"]

HOSTS_FILE = "/etc/hosts"


def read_hosts_file(hosts: Hosts, host: Host, path: str = HOSTS_FILE) -> Mapping[str, frozenset[str]]:
    """Name in lower case → its addresses, in their shortest form; none without that file. Raises HostError."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for line in (hosts.read(host, path) or b"").decode(errors="replace").splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        try:
            canonical = str(ipaddress.ip_address(address.partition("%")[0]))
        except ValueError:
            continue  # no resolver reads such a line
        for name in names:
            found[name.lower()].add(canonical)
    return {name: frozenset(addresses) for name, addresses in found.items()}
