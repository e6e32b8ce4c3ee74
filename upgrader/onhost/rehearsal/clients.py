"""Requests that clients have sent, by an audit log: which of them only the running version serves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from upgrader.onhost.rehearsal.api import Api, Resource

__all__ = ["Compared", "Request", "compared"]

_READS = ("get", "list", "watch")


class Request(NamedTuple):
    """What clients ask for."""

    api_version: str
    resource: str
    """`pods`, or `pods/eviction`."""
    verbs: list[str]


class Compared(NamedTuple):
    """One of them that the running version serves."""

    api_version: str
    resource: str
    verb: str
    served: bool
    """Whether the target does, too."""
    why: dict[str, Any] | None = None
    """The target's Status, if it refuses it; None: it serves no such resource, or not with this verb."""


def compared(current: Api, target: Api, requests: Iterable[Request]) -> Iterator[Compared]:
    """Those that the current version serves, by what both say that they serve. Reads of what can be listed are sent,
    too, for one object. Raises Failed.
    """
    before, after = (
        {(each.api_version, each.plural): each for each in api.all_resources()} for api in (current, target)
    )
    answers: dict[Resource, dict[str, Any] | None] = {}
    for api_version, resource, verbs in requests:
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
