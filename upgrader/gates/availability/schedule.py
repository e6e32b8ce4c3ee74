"""Which client sends which request when: a fixed plan, so that equal runs send equal requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import TypeVar

__all__ = ["FRESH_PER_SECOND", "deal"]

FRESH_PER_SECOND = 5.0
"""At most this many new connections a second, for all addresses: a TLS handshake costs some 2 ms of a core."""

Client = TypeVar("Client")
Kind = TypeVar("Kind")


def deal(
    fresh: Sequence[Client], kept: Sequence[Client], kinds: Sequence[Kind], requests_per_second: float
) -> Iterator[tuple[Client, Kind]]:
    """The client and the kind of each request in turn, endlessly.

    Half of the requests use fresh connections, or as many as FRESH_PER_SECOND allows. Either half cycles through its
    clients, and each client through the kinds, so that every client sends every kind.
    """
    share = min(0.5, FRESH_PER_SECOND / requests_per_second)
    rounds = {True: cycle(range(len(fresh))), False: cycle(range(len(kept)))}
    turns = {id(client): cycle(kinds) for client in (*fresh, *kept)}
    owed = 0.0
    while True:
        owed += share
        connect = owed >= 1
        owed -= connect
        client = (fresh if connect else kept)[next(rounds[connect])]
        yield client, next(turns[id(client)])
