"""What the controllers call themselves, which the API doesn't know: a kubelet may have another name for its node."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.ports import Hosts

__all__ = ["HostNames", "not_asked"]


@dataclass
class HostNames:
    """Asks the hosts, and only for a name that none of them is known by."""

    hosts: Hosts
    controllers: Sequence[Host]
    _nodes: dict[str, set[str]] = field(default_factory=dict)
    """A host's own name → its node's; of several nodes, where machines of one image all have the same name."""

    def __call__(self, name: str) -> Collection[str]:
        """The nodes of the controllers that call themselves so. Raises HostError where one can't be asked, and none of
        the others does.
        """
        failures = []
        for host in self.controllers if name not in self._nodes else ():
            try:
                called = self.hosts.run(host, ["uname", "-n"]).stdout.strip()
                self._nodes.setdefault(called, set()).add(host.name)
            except HostError as error:
                failures.append(error)
        if name not in self._nodes and failures:
            raise failures[0]
        return self._nodes.get(name, ())


def not_asked(name: str) -> Collection[str]:
    """In the place of `HostNames`, where there is no SSH."""
    raise HostError(f"no controller was asked whether its own name is {name}")
