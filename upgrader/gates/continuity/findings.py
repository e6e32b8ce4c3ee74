"""How the answers to questions about continuity become verdicts."""

from __future__ import annotations

from upgrader.errors import ApiError, ApiUnavailable
from upgrader.gates.api_absence import unanswered
from upgrader.model.outcome import Verdict, broken, pending
from upgrader.model.undecrypted import is_undecrypted

__all__ = ["KEEP_THE_RELEASES", "contradicted"]

KEEP_THE_RELEASES = "Don't remove any release: a rollback needs them."
"""Ends a remedy that could be read as advice to clear the way."""

_REFUSALS = frozenset({400, 401, 403, 404, 405, 409, 410, 422})


def contradicted(what: str, error: ApiError, remedy: str) -> Verdict:
    """The verdict on a request that was answered before: `what` says it in words, such as `a list of nodes`.

    A refusal is definite; a server error may pass; no answer says nothing.
    """
    if isinstance(error, ApiUnavailable):
        return unanswered(what, error)
    if error.status in _REFUSALS or is_undecrypted(error.message):
        return broken(f"{what} worked before this run, and is now rejected: {error.message}", remedy=remedy)
    return pending(f"{what} worked before this run, and now fails: {error.message}", remedy=remedy)
