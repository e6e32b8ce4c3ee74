"""What worked before a run's first step. A run's journal keeps it, so it contains no secret."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "Backend",
    "Baseline",
    "Count",
    "Latency99",
    "LevelSeats",
    "NotCompared",
    "RefusedShare",
    "ServerBaseline",
]


@dataclass(frozen=True)
class Count:
    """How many objects of a kind there were."""

    kind: str
    number: int


@dataclass(frozen=True)
class Backend:
    """An aggregated API, through one instance of kube-apiserver: each reaches it by its own way."""

    api_service: str
    server: str
    """The instance's address, as in `ServerBaseline`."""


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
class LevelSeats:
    """How many seats a priority level of API Priority and Fairness has."""

    level: str
    number: float


@dataclass(frozen=True)
class ServerBaseline:
    """What kube-apiserver reported of its clients: the worst value since it started, or during the seconds of the
    baseline.
    """

    server: str
    """Its address, `https://HOST:PORT`; "" for the instance that answers at the kubeconfig's address."""
    refused: tuple[RefusedShare, ...] = ()
    """The total of all instances; in a run of an older version, that of this instance."""
    latencies: tuple[Latency99, ...] = ()
    start: str = ""
    """When its process started, as it reports; "" in a run of an older version."""
    queued: float = 0.0
    """Requests that waited for a seat of API Priority and Fairness."""
    level_seats: tuple[LevelSeats, ...] = ()
    """How many it had, also of levels that were deleted since its start; () without API Priority and Fairness, and in a
    run of an older version.
    """


@dataclass(frozen=True)
class NotCompared:
    """Something that did not work before, or could not be read, so that a comparison is impossible."""

    what: str
    why: str


@dataclass(frozen=True)
class Baseline:
    """What is compared after each step. An empty field was not compared; `not_compared` says why."""

    version: str
    """Version of the API server that answered; if it emulates an older minor, the first version of that minor."""
    secret_digest: str = ""
    """SHA-256 of the value in the Secret that was written; "" if no Secret could be written."""
    token_seconds: int = 0
    """For how long the token in that Secret was issued."""
    servers: tuple[str, ...] = ()
    """The instances of kube-apiserver that answered at their own addresses, `https://HOST:PORT`."""
    groups: tuple[str, ...] = ()
    """The group versions that were served, such as `apps/v1`."""
    api_services: tuple[str, ...] = ()
    """The APIServices that were Available."""
    silent_backends: tuple[Backend, ...] | None = None
    """Those of them that an instance of kube-apiserver didn't reach even then; None if that is unknown, as in a run
    of an older version.
    """
    counts: tuple[Count, ...] = ()
    templates: tuple[str, ...] = ()
    """The workloads whose pods were admitted, as `Deployment kube-system/coredns`."""
    leases: tuple[str, ...] = ()
    """The Leases of kube-system that a running instance renewed."""
    cluster_ip: str = ""
    """The endpoints of the Service `kubernetes`."""
    service_ranges: tuple[str, ...] = ()
    new_workload: bool = False
    """Whether a new Deployment was rolled out, was in its Service's endpoints, and reached the API from its pod."""
    signed_token: bool = False
    """Whether the API accepted a token that kube-controller-manager wrote into a new Secret."""
    conversions: tuple[str, ...] = ()
    """Paths of objects that a webhook converts at each read; at most four."""
    clients: tuple[ServerBaseline, ...] = ()
    not_compared: tuple[NotCompared, ...] = ()
