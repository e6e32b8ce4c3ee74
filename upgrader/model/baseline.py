"""What worked before a run's first step; a run's journal keeps it, so there is no secret in it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Baseline", "Count", "Latency99", "NotCompared", "RefusedShare", "ServerBaseline"]


@dataclass(frozen=True)
class Count:
    """How many objects of a kind there were."""

    kind: str
    number: int


@dataclass(frozen=True)
class RefusedShare:
    """One way of refusing requests, such as `401` or `403 secrets`, and its share of all requests (0 to 1)."""

    what: str
    share: float


@dataclass(frozen=True)
class Latency99:
    """The 99th percentile of the duration of a verb's requests, in seconds."""

    verb: str
    seconds: float


@dataclass(frozen=True)
class ServerBaseline:
    """What kube-apiserver reported of its clients: at its worst, since it started or in the seconds of the baseline."""

    server: str
    """Its address, `https://HOST:PORT`; "" for whichever answers at the kubeconfig's."""
    refused: tuple[RefusedShare, ...] = ()
    """By all instances; a run of an older version has this instance's own."""
    latencies: tuple[Latency99, ...] = ()
    start: str = ""
    """When its process started, as it says itself; "" in a run of an older version."""
    queued: float = 0.0
    """Requests that waited for a seat of API Priority and Fairness."""


@dataclass(frozen=True)
class NotCompared:
    """Something that did not work before, or could not be read, so that nothing can be compared with it."""

    what: str
    why: str


@dataclass(frozen=True)
class Baseline:
    """What is compared after each step. An empty field was not compared; `not_compared` says why."""

    version: str
    """Of the API server that answered: where it emulates an older minor, the first of that one."""
    secret_digest: str = ""
    """SHA-256 of the value in the Secret that was written; "" when none could be."""
    token_seconds: int = 0
    """For how long the token in that Secret was issued."""
    servers: tuple[str, ...] = ()
    """The instances of kube-apiserver that answered at their own addresses, `https://HOST:PORT`."""
    groups: tuple[str, ...] = ()
    """The group versions that were served, such as `apps/v1`."""
    api_services: tuple[str, ...] = ()
    """The APIServices that were Available."""
    counts: tuple[Count, ...] = ()
    templates: tuple[str, ...] = ()
    """The workloads whose pods were admitted, as `Deployment kube-system/coredns`."""
    leases: tuple[str, ...] = ()
    """The Leases of kube-system that were renewed by a running instance."""
    cluster_ip: str = ""
    """Of the Service `kubernetes`."""
    service_ranges: tuple[str, ...] = ()
    new_workload: bool = False
    """Whether a new Deployment was rolled out, was in its Service's endpoints, and reached the API from its pod."""
    signed_token: bool = False
    """Whether a token that kube-controller-manager put into a new Secret was accepted."""
    conversions: tuple[str, ...] = ()
    """Paths of objects that a webhook converts whenever they are read; at most four."""
    clients: tuple[ServerBaseline, ...] = ()
    not_compared: tuple[NotCompared, ...] = ()
