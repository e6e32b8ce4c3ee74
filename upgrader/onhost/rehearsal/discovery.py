"""What a scratch kube-apiserver serves: custom resources become known some time after it is ready.

Its readiness doesn't wait for them: each has an APIService, which was removed from the copy, and is made again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from upgrader.onhost.rehearsal.api import Api, Resource

__all__ = ["PATIENCE_SECONDS", "Served", "custom_resources", "served", "versions"]

PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.5


class Served(NamedTuple):
    """A version of a resource. Each has an APIService of its own, so that one may become known before another."""

    group: str
    plural: str
    version: str


def custom_resources(definitions: Iterable[dict[str, Any]]) -> set[Served]:
    """All served versions of each CustomResourceDefinition that a server has accepted."""
    return {
        Served(each["spec"]["group"], each["spec"]["names"]["plural"], version["name"])
        for each in definitions
        if _established(each)
        for version in each["spec"].get("versions") or ()
        if version.get("served")
    }


def versions(found: dict[tuple[str, str], list[Resource]]) -> set[Served]:
    """All versions of what a server serves."""
    return {Served(*key, each.version) for key, resources in found.items() for each in resources}


def served(api: Api, wanted: set[Served], until: float) -> dict[tuple[str, str], list[Resource]]:
    """What it serves, once all that is `wanted` is there; what isn't a minute after the last one that is, or at `until`
    (monotonic seconds), is not served. Raises Failed.
    """
    there, last = 0, time.monotonic() + PATIENCE_SECONDS
    while True:
        found = api.resources()
        now = len(wanted & versions(found))
        if now > there:
            there, last = now, time.monotonic() + PATIENCE_SECONDS
        if now == len(wanted) or time.monotonic() >= min(until, last):
            return found
        time.sleep(_POLL_SECONDS)


def _established(definition: dict[str, Any]) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Established" and each.get("status") == "True" for each in conditions)
