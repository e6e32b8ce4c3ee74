"""Lists all objects of a resource, in pages that the API server can answer and guard can read: to the end of the list,
unless a server hands out pages without one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from upgrader.in_cluster.guard.guard_errors import AnswerTooLarge, ApiAway, VersionGone
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.resource import Resource

__all__ = ["everything"]

_LARGEST_PAGE = 500
_SMALLER = 4
"""By how many times fewer objects the next page has after one that was too large."""
_SMALL_BYTES = 4 << 20
"""A page up to this size may be followed by one of twice as many objects."""
_IN_PAGES = 2
"""So many times; then in one piece, which the API server has to put together at once."""
_MOST_OBJECTS = 1_000_000
"""Several times what the largest clusters have of one resource."""

Kept = TypeVar("Kept")


async def everything(
    api: Api, resource: Resource, namespace: str, query: Mapping[str, str], keep: Callable[[dict[str, Any]], Kept]
) -> tuple[list[Kept], str]:
    """What `keep` makes of each object, in the API's order, and the resourceVersion of the whole.

    `namespace` "": all. Only what `keep` returns stays in memory. Raises ApiAway, ApiRefused.
    """
    for _ in range(_IN_PAGES):
        try:
            return await _pages(api, resource, namespace, query, keep, _LARGEST_PAGE)
        except VersionGone:
            # The pages are of one moment, which the server has forgotten meanwhile.
            LOG.info("listing from the first page again", extra={"resource": resource.plural, "namespace": namespace})
    return await _pages(api, resource, namespace, query, keep, 0)


async def _pages(
    api: Api,
    resource: Resource,
    namespace: str,
    query: Mapping[str, str],
    keep: Callable[[dict[str, Any]], Kept],
    limit: int,
) -> tuple[list[Kept], str]:
    found, token, most, objects = list[Kept](), "", limit, 0
    begun = set[str]()
    """The first object of each page. The same one again would fill the memory long before `_MOST_OBJECTS`."""
    while True:
        first = list[str]()
        try:
            page = await api.page(resource, namespace, query, keep=_noting(first, keep), limit=limit, token=token)
        except AnswerTooLarge:  # never of a single object
            limit = max(1, limit // _SMALLER)
            continue
        found += page.items
        if not page.token:
            return found, page.version
        # A page may have fewer objects, or none, and be followed by others all the same: it counts as a full one.
        objects += max(limit or _LARGEST_PAGE, len(page.items))
        why = ""
        if page.token == token:
            why = "the API server returned the same page twice"
        elif not begun.isdisjoint(first):
            why = f"two pages begin with {first[0]}"
        elif objects >= _MOST_OBJECTS:
            why = f"there are more pages after {_MOST_OBJECTS:,} objects"
        if why:
            raise ApiAway(f"GET {resource.path(namespace)}: the list has no end: {why}")
        token = page.token
        begun.update(first)
        if page.size <= _SMALL_BYTES:
            limit = min(most, 2 * limit)


def _noting(first: list[str], keep: Callable[[dict[str, Any]], Kept]) -> Callable[[dict[str, Any]], Kept]:
    """The same as `keep`, which notes the first object by its namespace and name."""

    def kept(item: dict[str, Any]) -> Kept:
        if not first:
            meta = item["metadata"]
            first.append("/".join(filter(None, (meta.get("namespace"), meta["name"]))))
        return keep(item)

    return kept
