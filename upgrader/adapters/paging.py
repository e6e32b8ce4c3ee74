"""How far a list is read: to its end, unless a server hands out pages, or beginnings, without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from upgrader.errors import ApiError

__all__ = ["MOST_OBJECTS", "Paging"]

MOST_OBJECTS = 1_000_000
"""Several times what the largest clusters have of one resource."""


class Paging:
    """The pages of one list, of at most `size` objects each, that a server is asked for; `what`: `list pods`.

    A page may have fewer objects, or none, and be followed by others all the same: so it counts as a full one. `server`
    answers with its URL, for an error. One of these is for a whole call, however often that begins.
    """

    def __init__(self, server: Callable[[], str], what: str, size: int) -> None:
        self._server, self._what, self.size = server, what, size
        self._objects, self._token = 0, ""
        self._brought = -1

    def after(self, page: Mapping[str, Any]) -> str:
        """The token for the page after this one; "" if it is the last. Raises ApiError for a list without an end."""
        token = str((page.get("metadata") or {}).get("continue") or "")
        self._objects += max(self.size, len(page.get("items") or ()))
        if token and token == self._token:
            raise self._endless("it returned the same page twice")
        if token and self._objects >= MOST_OBJECTS:
            raise self._endless(f"there are more pages after {MOST_OBJECTS:,} objects")
        self._token = token
        return token

    def begins_again(self, brought: int) -> bool:
        """Whether to read once more from the start, as the server has forgotten the moment of the first page.

        `brought`: how many objects the call has had so far. Who takes minutes for what is handed out needs many
        beginnings, and has an end as long as each brings something new. Raises ApiError for a list without an end.
        """
        if brought >= MOST_OBJECTS:
            raise self._endless(f"there are more pages after {MOST_OBJECTS:,} objects")
        new, self._brought = brought != self._brought, brought
        self._objects, self._token = 0, ""
        return new

    def _endless(self, why: str) -> ApiError:
        return ApiError(
            f"the API server at {self._server()} returned a list without an end: {why} ({self._what})",
            remedy="Check that the kubeconfig points to the API server itself, or to a proxy that passes on the "
            "parameter `continue`. If the cluster really has so many of these objects, delete those that it doesn't "
            "need.",
        )
