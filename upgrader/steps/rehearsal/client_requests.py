"""What clients send, by an audit log: which requests a rehearsal tries, and who sent those that fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from upgrader.model.audit_log import Requests
from upgrader.steps.rehearsal.differences import CLIENT, Difference

__all__ = ["NO_REQUESTS", "ClientRequests"]

_SHOWN = 10


@dataclass(frozen=True)
class ClientRequests:
    """Requests of clients that a run doesn't replace; none without an audit log."""

    sent: Sequence[Requests] = ()

    def asked(self) -> list[tuple[str, str, list[str]]]:
        """Each apiVersion with a resource and its verbs, without the clients."""
        verbs = dict[tuple[str, str], set[str]]()
        for each in self.sent:
            verbs.setdefault((each.api_version, each.resource), set()).update(each.verbs)
        return [(*key, sorted(found)) for key, found in sorted(verbs.items())]

    def named(self, found: Difference) -> Difference:
        """One of a request with the clients that sent it, the most active ones first; any other one as it is."""
        if found.what != CLIENT:
            return found
        api_version, resource, verb = found.resource.split(" ")
        clients = tuple(dict.fromkeys(self._senders(api_version, resource, verb)))
        return replace(found, count=len(clients), names=clients[:_SHOWN])

    def _senders(self, api_version: str, resource: str, verb: str) -> Iterator[str]:
        for each in sorted(self.sent, key=lambda each: -each.count):
            if (each.api_version, each.resource) == (api_version, resource) and verb in each.verbs:
                yield each.client


NO_REQUESTS = ClientRequests()
"""Without an audit log."""
