"""The resources that a cluster stores, by its API's discovery."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["StoredResource", "stored_resources"]

_NEEDED = {"list", "patch"}
_EXPIRING = {("", "events"), ("events.k8s.io", "events")}
"""Their objects expire before their storage version is removed."""


@dataclass(frozen=True)
class StoredResource:
    """A resource, at the version that the API prefers for it."""

    group: str
    api_version: str
    plural: str
    namespaced: bool

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def stored_resources(
    read: Callable[[str], str], elsewhere: Collection[str], *, only: str | None = None
) -> Iterator[StoredResource]:
    """Each resource once, whatever the number of its versions; without those that expire by themselves.

    `read` gets a path of the API. `elsewhere` are the group versions that an aggregated API server stores. `only` is
    the one group whose resources are wanted ("": the core group). Raises ValueError for an answer that can't be parsed.
    """
    try:
        seen: set[tuple[str, str]] = set()
        for group, api_version in _group_versions(json.loads(read("/apis"))):
            if api_version in elsewhere or only not in (None, group):
                continue
            path = f"/apis/{api_version}" if group else f"/api/{api_version}"
            for item in json.loads(read(path))["resources"]:
                key = group, str(item["name"])
                if "/" in key[1] or not set(item["verbs"]) >= _NEEDED or key in seen | _EXPIRING:
                    continue
                seen.add(key)
                yield StoredResource(group, api_version, key[1], item["namespaced"] is True)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"the API's discovery documents can't be parsed: {error!r}") from error


def _group_versions(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Group and group version, each group's preferred version first."""
    yield "", "v1"
    for group in found["groups"]:
        preferred = str(group["preferredVersion"]["groupVersion"])
        versions = [str(version["groupVersion"]) for version in group["versions"]]
        for version in (preferred, *(version for version in versions if version != preferred)):
            yield str(group["name"]), version
