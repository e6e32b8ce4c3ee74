"""Downscales that wait until the pods have been prepared for long enough: the pods themselves keep the time.

Each pass asks the pods that would go, by POST, since when they are prepared, and tells the others, by DELETE, that they
stay. Nothing is remembered here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from upgrader.contract.times import days_of
from upgrader.in_cluster.guard.core.scaling import NotScaled
from upgrader.in_cluster.guard.core.workloads import StatefulSet

__all__ = ["MOST_PODS", "Calls", "Delay", "Endpoint", "Reply", "calls", "delay_of", "endpoint", "reached"]

DELAY = "grafana.com/rollout-delayed-downscale"
URL = "grafana.com/rollout-prepare-delayed-downscale-url"
MOST_PODS = 10_000
"""Of a set, that are told at a time: API servers store any number of replicas up to two billion."""
_MOST_SECONDS = 2.0**40


@dataclass(frozen=True)
class Delay:
    """For how many seconds pods must have been prepared, and where they are asked."""

    seconds: float
    url: SplitResult


@dataclass(frozen=True)
class Endpoint:
    """A request to a pod: connect to the pod's IP and `port`, with `host` as Host."""

    ordinal: int
    namespace: str
    pod: str
    host: str
    scheme: str
    port: int
    path: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}{self.path}"


@dataclass(frozen=True)
class Calls:
    """Pods to be prepared (POST), and pods that stay (DELETE; whatever they answer changes nothing)."""

    post: tuple[Endpoint, ...]
    delete: tuple[Endpoint, ...]


@dataclass(frozen=True)
class Reply:
    """What a pod answered: an HTTP status and its body, or why there is none (then the status is 0)."""

    status: int
    body: bytes = b""
    error: str = ""


def delay_of(which: StatefulSet) -> Delay | None:
    """The set's delay; None if it has none. Raises `NotScaled` for what can't be read."""
    text, address = which.annotations.get(DELAY), which.annotations.get(URL)
    if not text or not address:
        return None
    seconds = days_of(text)
    if seconds is None:
        raise NotScaled(f"{DELAY} of {which.name} is {text[:64]!r}, not a duration such as 1h")
    try:
        url = urlsplit(address)
        right = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        right = False
    if not right:
        raise NotScaled(f"{URL} of {which.name} is {address[:128]!r}, not a URL")
    return Delay(seconds, url) if seconds else None


def endpoint(which: StatefulSet, ordinal: int, url: SplitResult, cluster_domain: str) -> Endpoint:
    """Where a pod is asked: the URL as it is, with the pod's name in the cluster's DNS instead of its host."""
    pod = f"{which.name}-{ordinal}"
    name = f"{pod}.{which.service_name}.{which.namespace}.svc.{cluster_domain}"
    return Endpoint(
        ordinal=ordinal,
        namespace=which.namespace,
        pod=pod,
        host=f"{name}:{url.port}" if url.port else name,
        scheme=url.scheme,
        port=url.port or (443 if url.scheme == "https" else 80),
        path=(url.path or "/") + (f"?{url.query}" if url.query else ""),
    )


def calls(which: StatefulSet, wanted: int, delay: Delay, cluster_domain: str) -> Calls:
    """Whom to ask when the set should have `wanted` replicas; no more and no fewer: all are told that they stay.

    Raises `NotScaled` if the set has too many.
    """
    if which.replicas > MOST_PODS:
        raise NotScaled(f"{which.name} has {which.replicas} replicas, more than the {MOST_PODS} that guard can prepare")
    first, staying = which.first_ordinal, min(wanted, which.replicas)
    everyone = [endpoint(which, ordinal, delay.url, cluster_domain) for ordinal in range(first, first + which.replicas)]
    return Calls(post=tuple(everyone[staying:]), delete=tuple(everyone[:staying]))


def reached(which: StatefulSet, wanted: int, delay: Delay, replies: Mapping[int, Reply], now: float) -> int:
    """How many replicas the set may have now: `wanted` if all the others were prepared long enough ago, more if only
    the last ones were. Raises `NotScaled` if none was, or if one of them can't be asked, by its name.

    `replies`: of each pod that was asked by POST, by its ordinal.
    """
    allowed = which.replicas
    since = {}
    for ordinal in range(which.first_ordinal + wanted, which.first_ordinal + which.replicas):
        since[ordinal] = _since(f"{which.name}-{ordinal}", replies.get(ordinal, Reply(0, error="it wasn't called")))
    for ordinal in sorted(since, reverse=True):
        if now - since[ordinal] < delay.seconds:
            break
        allowed -= 1
    if since and allowed == which.replicas:
        raise NotScaled(f"the last pod of {which.name} has not been prepared for {delay.seconds:.0f} s yet")
    return allowed


def _since(pod: str, reply: Reply) -> float:
    """Since when a pod is prepared, in seconds since the epoch."""
    if reply.error or not 200 <= reply.status < 300:
        raise NotScaled(f"{pod} can't be prepared: {reply.error or f'HTTP {reply.status}'}")
    try:
        content = json.loads(reply.body)
    except (ValueError, RecursionError):
        raise NotScaled(f"{pod} can't be prepared: its answer isn't JSON") from None
    value = content.get("timestamp") if isinstance(content, dict) else None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < _MOST_SECONDS:
        raise NotScaled(f"{pod} can't be prepared: its answer has no timestamp")
    return float(value)
