"""Which client sends which request when: a fixed plan, so that equal runs ask equal questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import TypeVar

__all__ = ["FRESH_PER_SECOND", "deal"]

FRESH_PER_SECOND = 5.0
"""New connections a second at most, through all addresses: each costs some 2 ms of a core for its TLS handshake."""

Client = TypeVar("Client")
Kind = TypeVar("Kind")


def deal(
    fresh: Sequence[Client], kept: Sequence[Client], kinds: Sequence[Kind], requests_per_second: float
) -> Iterator[tuple[Client, Kind]]:
    """Client and kind of each request in turn, without end.

    Half of the requests are for fresh connections, or as many as FRESH_PER_SECOND allows. Either half goes round its
    clients, and each client goes round the kinds by itself: so every client sends every kind.
    """
    share = min(0.5, FRESH_PER_SECOND / requests_per_second)
    rounds = {True: cycle(range(len(fresh))), False: cycle(range(len(kept)))}
    turns = {id(client): cycle(kinds) for client in (*fresh, *kept)}
    owed = 0.0
    while True:
        owed += share
        anew = owed >= 1
        owed -= anew
        client = (fresh if anew else kept)[next(rounds[anew])]
        yield client, next(turns[id(client)])
