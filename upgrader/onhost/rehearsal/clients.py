"""Requests that clients have sent, by an audit log: which of them only the running version serves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from upgrader.onhost.rehearsal.api import Api, Resource

__all__ = ["Request", "Unserved", "unserved"]

_READS = ("get", "list", "watch")


class Request(NamedTuple):
    """What clients ask for."""

    api_version: str
    resource: str
    """`pods`, or `pods/eviction`."""
    verbs: list[str]


class Unserved(NamedTuple):
    """Some that fail with the target."""

    api_version: str
    resource: str
    verb: str
    why: dict[str, Any] | None
    """The target's Status; None: it serves no such resource, or not with this verb."""


def unserved(current: Api, target: Api, requests: Iterable[Request]) -> Iterator[Unserved]:
    """Those that the current version serves, and the target doesn't: by what both say that they serve. Reads of what
    can be listed are sent, too, for one object. Raises Failed.
    """
    before, after = (
        {(each.api_version, each.plural): each for each in api.all_resources()} for api in (current, target)
    )
    answers: dict[Resource, dict[str, Any] | None] = {}
    for api_version, resource, verbs in requests:
        old, new = (each.get((api_version, resource)) for each in (before, after))
        for verb in verbs:
            if old is None or verb not in old.verbs:
                continue  # it fails today
            if new is None or verb not in new.verbs:
                yield Unserved(api_version, resource, verb, None)
            elif verb in _READS and "list" in new.verbs:
                if new not in answers:
                    refused = target.page(new, "", limit=1).refused
                    answers[new] = refused if refused and current.page(old, "", limit=1).refused is None else None
                if answers[new] is not None:
                    yield Unserved(api_version, resource, verb, answers[new])
