"""What clients send, by an audit log: which requests a rehearsal tries, and who sent those that fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from upgrader.model.audit_log import Requests
from upgrader.steps.rehearsal.differences import CLIENT, Difference

__all__ = ["NO_REQUESTS", "ClientRequests"]

_SHOWN = 10
_CONNECTED, _CONNECTS = {("v1", f"pods/{name}") for name in ("attach", "exec", "portforward")}, "get"
"""Through a WebSocket. Since v1.35, this needs the permission to `create`, too."""

Sender = tuple[str, tuple[str, ...], str]
"""A user, its groups, and a namespace."""


@dataclass(frozen=True)
class ClientRequests:
    """Requests of clients that a run doesn't replace; none without an audit log."""

    sent: Sequence[Requests] = ()

    def asked(self) -> list[tuple[str, str, list[str], list[Sender]]]:
        """Each apiVersion with a resource and its verbs, without the clients; but for what the target may permit to
        others than the running version does, with the users, their groups and a namespace.
        """
        verbs = dict[tuple[str, str], set[str]]()
        users = dict[tuple[str, str], set[Sender]]()
        for each in self.sent:
            key = each.api_version, each.resource
            verbs.setdefault(key, set()).update(each.verbs)
            if key in _CONNECTED and _CONNECTS in each.verbs:
                found = users.setdefault(key, set())
                found.update((each.acting, each.groups, namespace) for namespace in each.namespaces)
        return [(*key, sorted(found), sorted(users.get(key, ()))) for key, found in sorted(verbs.items())]

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
