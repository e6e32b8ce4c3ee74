"""Requests that clients have sent, by an audit log: which of them only the running version serves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from upgrader.onhost.rehearsal.api import Api, Resource

__all__ = ["Compared", "Denied", "Request", "compared", "denied"]

_READS = ("get", "list", "watch")
_FORBIDDEN = 403
_NO_POD = "rehearsal.invalid"
"""Both versions authorize a request before they look for its pod; if there were one, they would call its kubelet."""


class Request(NamedTuple):
    """What clients ask for."""

    api_version: str
    resource: str
    """`pods`, or `pods/eviction`."""
    verbs: list[str]
    users: Sequence[tuple[str, Sequence[str], str]] = ()
    """Who connects to pods by it: a user, its groups, and a namespace."""


class Compared(NamedTuple):
    """One of them that the running version serves."""

    api_version: str
    resource: str
    verb: str
    served: bool
    """Whether the target does, too."""
    why: dict[str, Any] | None = None
    """The target's Status, if it refuses it; None: it serves no such resource, or not with this verb."""


class Denied(NamedTuple):
    """A user who may connect to a namespace's pods today, and not with the target."""

    api_version: str
    resource: str
    user: str
    namespace: str
    why: dict[str, Any]
    """The target's Status."""


def denied(current: Api, target: Api, requests: Iterable[Request]) -> Iterator[Denied]:
    """Those who connect to pods, each asked for as that user. Raises Failed."""
    for request in requests:
        for user, groups, namespace in request.users:
            pods, _, subresource = request.resource.partition("/")
            path = f"/api/v1/namespaces/{quote(namespace, safe='')}/{pods}/{_NO_POD}/{subresource}"
            status, why = target.get_as(path, user, groups)
            if status == _FORBIDDEN and current.get_as(path, user, groups)[0] != _FORBIDDEN:
                yield Denied(request.api_version, request.resource, user, namespace, why)


def compared(current: Api, target: Api, requests: Iterable[Request]) -> Iterator[Compared]:
    """Those that the current version serves, by what both say that they serve. Reads of what can be listed are sent,
    too, for one object. Raises Failed.
    """
    before, after = (
        {(each.api_version, each.plural): each for each in api.all_resources()} for api in (current, target)
    )
    answers: dict[Resource, dict[str, Any] | None] = {}
    for api_version, resource, verbs, _ in requests:
        old, new = (each.get((api_version, resource)) for each in (before, after))
        for verb in verbs:
            if old is None or verb not in old.verbs:
                continue  # it fails today, or another server serves it
            served, why = new is not None and verb in new.verbs, None
            if new is not None and served and verb in _READS and "list" in new.verbs:
                if new not in answers:
                    refused = target.page(new, "", limit=1).refused
                    answers[new] = refused if refused and current.page(old, "", limit=1).refused is None else None
                why = answers[new]
            yield Compared(api_version, resource, verb, served and why is None, why)
