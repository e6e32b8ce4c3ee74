"""Whether the API's clients are worse off than before: what rose, by how much. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import inf

from upgrader.gates.continuity.server_metrics import Counters, percentile99
from upgrader.model.baseline import ServerBaseline

__all__ = ["at_cpu_limit", "fewer_seats", "more_queued", "more_refusals", "slower"]

_FEW = 5
"""Refusals that any client may cause by itself."""
_FACTOR = 3.0
_FLOOR = 0.02
"""Share of all requests that is no news in a window of seconds: two in a hundred."""
_SLOW_SECONDS = 1.0
_SLOWER = 4.0
_QUEUE = 10.0
"""Requests that may wait for a seat at any time."""
_AT_LIMIT = 0.8
"""Of a CPU limit: a slow instance counts its CPU seconds at a moment that is only roughly known."""
_FEWER_SEATS = 0.75
"""Each priority level's seats are rounded up: which levels there are changes the sum a little."""


def more_refusals(
    before: Collection[ServerBaseline], window: Counters, everywhere: Counters, *, floor: float = _FLOOR
) -> dict[str, str]:
    """Each refusal that has become several times as frequent: what → `HTTP 403 secrets: 41 of 300 requests, 0.1 % …`.

    `window` is of one instance, or of all; `everywhere` is the sum of all. As a client's kept connection moves from one
    instance to another, an instance may refuse as much as all of them together did. `floor` is the share of all
    requests that is no news.
    """
    known: dict[str, float] = {}
    for item in (item for server in before for item in server.refused):
        known[item.what] = max(item.share, known.get(item.what, 0.0))
    return dict(_risen(window, everywhere.total, known, floor))


def _risen(window: Counters, everywhere: float, known: Mapping[str, float], floor: float) -> Iterator[tuple[str, str]]:
    for what, number in sorted(window.unwanted.items(), key=lambda item: -item[1]):
        share = known.get(what, 0.0)
        if number >= _FEW and number > _FACTOR * share * everywhere + floor * window.total:
            yield what, f"HTTP {what}: {number:.0f} of {window.total:.0f} requests, {share:.1%} before this run"


def more_queued(before: Collection[ServerBaseline], window: Counters) -> str:
    """`24 requests wait for a seat …`, where several times as many wait as at any instance before; "" otherwise."""
    known = max((server.queued for server in before), default=0.0)
    if window.queued < max(_QUEUE, _FACTOR * known):
        return ""
    return f"{window.queued:.0f} requests wait for a seat (API Priority and Fairness), {known:.0f} before this run"


def fewer_seats(before: Collection[ServerBaseline], window: Counters) -> str:
    """`9 seats for requests, 608 before …`, with the flags that say how many; "" where it has about as many, or has no
    API Priority and Fairness.

    Of before, only the levels that it has count: a level that was deleted is reported until an instance ends, besides
    the others, which have got its seats.
    """
    seats = sum(window.seats.values())
    totals = (sum(each.number for each in server.level_seats if each.level in window.seats) for server in before)
    known = min(filter(None, totals), default=0.0)
    if not seats or seats >= _FEWER_SEATS * known:
        return ""
    return (
        f"{seats:.0f} seats for requests, {known:.0f} before this run (kube-apiserver's flags "
        "max-requests-inflight and max-mutating-requests-inflight)"
    )


def at_cpu_limit(window: Counters, limit: float, seconds: float) -> str:
    """`it uses all of its CPU limit, 50m …`, where an instance does so in a window of that length; "" otherwise."""
    if limit == inf or window.cpu_seconds < _AT_LIMIT * limit * seconds:
        return ""
    return f"it uses all of its CPU limit, {limit * 1000:.0f}m (resources.limits.cpu of kube-apiserver)"


def slower(before: Collection[ServerBaseline], window: Counters) -> tuple[str, ...]:
    """Each verb that takes several times as long as at any instance before, as `99 % of LIST within 8 s, 0.5 s before`.

    Large requests move from one instance to another with the connections of their clients.
    """
    known: dict[str, float] = {}
    for item in (item for server in before for item in server.latencies):
        known[item.verb] = max(item.seconds, known.get(item.verb, 0.0))
    return tuple(_slow(window, known))


def _slow(window: Counters, known: Mapping[str, float]) -> Iterator[str]:
    for verb, buckets in sorted(window.durations.items()):
        seconds = percentile99(buckets)
        if seconds is not None and verb in known and seconds > max(_SLOW_SECONDS, _SLOWER * known[verb]):
            yield f"99 % of {verb} requests take up to {seconds:g} s, {known[verb]:g} s before this run"
