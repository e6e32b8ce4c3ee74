"""What kube-apiserver's own `/metrics` say of its clients: how many it refused, and how slow it was. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TypeVar

from upgrader.model.baseline import Latency99, LevelSeats, RefusedShare, ServerBaseline

__all__ = ["TOO_MANY", "Answers", "Counters", "answered", "parse", "percentile99", "since", "summarize", "together"]

TOO_MANY = "rejected as too many"
"""How `Counters.refused` names requests for which there was no seat."""

_REQUESTS, _START, _CPU = "apiserver_request_total{", "process_start_time_seconds", "process_cpu_seconds_total"
_PREFIXES = (
    _REQUESTS,
    "authentication_attempts{",
    "apiserver_flowcontrol_rejected_requests_total{",
    "apiserver_flowcontrol_current_inqueue_requests{",
    "apiserver_flowcontrol_nominal_limit_seats{",
    "apiserver_request_terminations_total{",
    "apiserver_admission_webhook_rejection_count{",
    "apiserver_request_duration_seconds_bucket{",
    _START,
    _CPU,
)
_COUNTED = re.compile(f"^(?:{'|'.join(map(re.escape, _PREFIXES))}).*", re.MULTILINE)
"""One line at a time: all of them as a list would be the text once more, which may have ten megabytes."""
_BUILT_IN_LEVELS = frozenset(
    {"catch-all", "global-default", "leader-election", "node-high", "system", "workload-high", "workload-low"}
)
"""Priority levels that every cluster has. Others have few seats so that their requests wait, or are rejected."""
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_GUARDS = ".guard.upgrader.io"
"""How the names of guard's webhooks end."""
_LONG = frozenset({"WATCH", "WATCHLIST", "CONNECT", "PROXY"})
"""Verbs of requests that last as long as their clients want."""
_MANY = 50
"""Requests of a verb that make a percentile worth looking at."""

K = TypeVar("K", str, float)

Buckets = Mapping[float, float]
"""A histogram: upper limit in seconds → number of requests up to it."""


@dataclass(frozen=True)
class Counters:
    """What an instance counted since it started (`start`, by its own clock), or between two such readings."""

    start: str = ""
    requests: float = 0.0
    refused: Mapping[str, float] = field(default_factory=dict)
    """`401`, `403 secrets`, `500 pods`, `rejected` … → how many."""
    durations: Mapping[str, Buckets] = field(default_factory=dict)
    """Verb → histogram."""
    denied: Mapping[str, float] = field(default_factory=dict)
    """Code → how many guard has denied, of whatever resource: while a run holds groups still, that is its work."""
    queued: float = 0.0
    """Requests that wait for a seat of a built-in priority level: now, or at both readings."""
    seats: Mapping[str, float] = field(default_factory=dict)
    """Priority level → its seats, as of the last reading; empty without API Priority and Fairness. A level that was
    deleted keeps its number until the instance ends.
    """
    cpu_seconds: float = 0.0
    """How much CPU it used."""

    @property
    def unwanted(self) -> Mapping[str, float]:
        """What was refused, without as many of each as guard has denied with its code: of which resource isn't said."""
        return {
            what: max(number - self.denied.get(what.partition(" ")[0], 0.0), 0.0)
            for what, number in self.refused.items()
        }

    @property
    def total(self) -> float:
        """All requests, for a share of them: those that are refused early are not counted as requests."""
        return max(self.requests, sum(self.refused.values()), 1.0)


@dataclass(frozen=True)
class Answers:
    """How many requests an instance has answered since it started."""

    start: str
    """As of `Counters`; "" if it isn't said."""
    requests: float


def parse(text: str) -> Counters:
    """Read the few metrics that count, out of thousands of lines."""
    start, requests, queued, terminated, cpu = "", 0.0, 0.0, 0.0, 0.0
    seats: dict[str, float] = {}
    refused: dict[str, float] = defaultdict(float)
    denied: dict[str, float] = defaultdict(float)
    durations: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for line in _lines(text):
        body, _, number = line.rpartition(" ")
        name, _, rest = body.partition("{")
        labels = dict(_LABEL.findall(rest))
        if name == _START:
            start = number
        elif name == _CPU:
            cpu = float(number)
        elif name == "apiserver_request_total":
            requests += float(number)
            code = labels.get("code", "")
            if code in ("401", "403") or code.startswith("5"):
                refused[f"{code} {labels.get('resource', '')}".rstrip()] += float(number)
        elif name == "authentication_attempts":
            if labels.get("result") != "success":
                refused["401"] += float(number)
        elif name == "apiserver_flowcontrol_rejected_requests_total":
            if labels.get("priority_level") in _BUILT_IN_LEVELS:
                refused[TOO_MANY] += float(number)
        elif name == "apiserver_flowcontrol_current_inqueue_requests":
            if labels.get("priority_level") in _BUILT_IN_LEVELS:
                queued += float(number)
        elif name == "apiserver_flowcontrol_nominal_limit_seats":
            # However they are shared out, all levels together have as many as two flags say.
            seats[labels.get("priority_level", "")] = float(number)
        elif name == "apiserver_request_terminations_total":
            if labels.get("code") == "429":
                terminated += float(number)
        elif name == "apiserver_admission_webhook_rejection_count":
            if labels.get("error_type") == "no_error" and labels.get("name", "").endswith(_GUARDS):
                denied[labels.get("rejection_code", "")] += float(number)
        elif labels.get("verb") not in _LONG:
            durations[labels.get("verb", "")][float(labels.get("le", "inf").replace("+Inf", "inf"))] += float(number)
    if terminated and not seats:  # --enable-priority-and-fairness=false: it rejects what is beyond the two flags
        refused[TOO_MANY] += terminated
    histograms = {verb: dict(found) for verb, found in durations.items()}
    return Counters(start, requests, dict(refused), histograms, dict(denied), queued, seats, cpu)


def _lines(text: str) -> Iterator[str]:
    """Those that count."""
    return (found[0] for found in _COUNTED.finditer(text))


def answered(text: str) -> Answers:
    """How many requests for objects an instance has answered since it started. Not those that it refused or failed
    (401, 403, 429, 5xx), that last as long as their clients want, that renew Leases, as an idle cluster does all the
    time, or that aren't for objects, such as probes. Who asked isn't said. Raises ValueError where a number is missing.
    """
    start, total = "", 0.0
    for line in _lines(text):
        body, _, number = line.rpartition(" ")
        if body == _START:
            start = number
        if not line.startswith(_REQUESTS):
            continue
        labels = dict(_LABEL.findall(body))
        code = labels.get("code", "")
        fine = code.startswith(("2", "3", "4")) and code not in ("401", "403", "429")
        if fine and labels.get("verb") not in _LONG and labels.get("resource", "") not in ("", "leases"):
            total += float(number)
    return Answers(start, total)


def since(before: Counters, now: Counters) -> Counters | None:
    """What was counted between two readings of one instance; None when they are not of the same."""
    if not now.start or before.start != now.start:
        return None
    return Counters(
        now.start,
        now.requests - before.requests,
        _grown(before.refused, now.refused),
        {verb: _grown(before.durations.get(verb, {}), found) for verb, found in now.durations.items()},
        _grown(before.denied, now.denied),
        min(before.queued, now.queued),
        now.seats,
        now.cpu_seconds - before.cpu_seconds,
    )


def together(readings: Iterable[Counters]) -> Counters:
    """The requests and refusals of several instances."""
    requests, refused, denied = 0.0, defaultdict[str, float](float), defaultdict[str, float](float)
    for each in readings:
        requests += each.requests
        for what, number in each.refused.items():
            refused[what] += number
        for code, number in each.denied.items():
            denied[code] += number
    return Counters("", requests, dict(refused), denied=dict(denied))


def summarize(first: Mapping[str, Counters], second: Mapping[str, Counters]) -> tuple[ServerBaseline, ...]:
    """The shares and percentiles that later readings are compared with, from two readings of each instance.

    Of what was counted since an instance started, and between the readings, the worse counts: what began a day ago is
    lost in the average of two months, and what comes once an hour isn't seen within seconds. Refusals are shares of the
    requests to all instances.
    """
    found = ((server, since(seen, second[server])) for server, seen in first.items() if server in second)
    windows = {server: window for server, window in found if window is not None}
    shares = _shares(together(first.values()), together(windows.values()))
    return tuple(
        ServerBaseline(
            server,
            shares,
            tuple(_latencies(seen, windows.get(server, Counters()))),
            seen.start,
            max(seen.queued, second.get(server, seen).queued),
            tuple(LevelSeats(level, number) for level, number in sorted(seen.seats.items())),
        )
        for server, seen in first.items()
    )


def _shares(lifetime: Counters, window: Counters) -> tuple[RefusedShare, ...]:
    worst: dict[str, float] = defaultdict(float)
    for seen in (lifetime, window):
        for what, number in seen.unwanted.items():
            worst[what] = max(worst[what], number / seen.total)
    return tuple(RefusedShare(what, share) for what, share in sorted(worst.items()) if share)


def _latencies(lifetime: Counters, window: Counters) -> Iterator[Latency99]:
    for verb, buckets in sorted(lifetime.durations.items()):
        found = (percentile99(buckets), percentile99(window.durations.get(verb, {})))
        known = [seconds for seconds in found if seconds is not None]
        if known:
            yield Latency99(verb, max(known))


def percentile99(buckets: Buckets) -> float | None:
    """The upper limit of the bucket that holds the 99th percentile; None for too few requests to say."""
    total = buckets.get(inf, 0.0)
    if total < _MANY:
        return None
    reached = [limit for limit, number in buckets.items() if number >= 0.99 * total]
    finite = [limit for limit in buckets if limit != inf]
    return min(*reached, max(finite, default=inf) * 2)


def _grown(before: Mapping[K, float], now: Mapping[K, float]) -> dict[K, float]:
    return {key: number - before.get(key, 0.0) for key, number in now.items()}
