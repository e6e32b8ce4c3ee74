"""Takes the baseline before the first step: what works now, and what can't be compared because it doesn't."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from upgrader.errors import ApiError
from upgrader.gates.continuity.admission import admitted_templates
from upgrader.gates.continuity.api_services import available_services, silent_backends
from upgrader.gates.continuity.clients_gate import WINDOW_SECONDS
from upgrader.gates.continuity.conversions import read_conversions
from upgrader.gates.continuity.host_names import not_asked
from upgrader.gates.continuity.leader_leases import NodeCalled, held_leases
from upgrader.gates.continuity.new_workload import NewWorkload, remove_workloads
from upgrader.gates.continuity.object_counts import count_objects
from upgrader.gates.continuity.running_instances import running_instances
from upgrader.gates.continuity.sentinel import Sentinel, check_secret, check_token, create_sentinel
from upgrader.gates.continuity.served_groups import read_groups
from upgrader.gates.continuity.server_metrics import Counters, parse, summarize
from upgrader.gates.continuity.service_range import read_cluster_ip, read_ranges
from upgrader.gates.continuity.signed_token import SignedToken, remove_signed_tokens
from upgrader.model.baseline import Baseline, NotCompared
from upgrader.model.emulation import ServerVersion
from upgrader.model.outcome import VerdictKind
from upgrader.ports import Clock, Kube
from upgrader.wait_and_retry import wait_until

__all__ = ["take_baseline", "with_new_sentinel"]

_WORKLOAD_SECONDS = 20.0
"""For a new Deployment's pod to be rolled out and to end; where it takes longer, it is not compared."""
_LEASE_SECONDS = 15.0
"""For a Lease to be renewed: every 2 s by default, and seldom more slowly than every 10 s."""
_INTERVAL_SECONDS = 0.5
_QUIET_SECONDS = 2.0
"""Without a word of progress."""

_T = TypeVar("_T")


def take_baseline(
    kube: Kube,
    clock: Clock,
    note: Callable[[str], None],
    controllers: Collection[str] = (),
    interval_seconds: float = _INTERVAL_SECONDS,
    node_called: NodeCalled = not_asked,
) -> Baseline:
    """Put the sentinel, and read what later checks compare. What fails is in `not_compared`; nothing is raised.

    `controllers` are the names of their nodes. A new Deployment is looked at every `interval_seconds`.
    """
    taking = _Taking()
    taking.read("leftovers of an earlier run", lambda: remove_workloads(kube))
    taking.read("leftovers of an earlier run", lambda: remove_signed_tokens(kube))
    version = taking.read("the version", lambda: str(ServerVersion.parse(kube.raw("/version")).serves_as)) or ""
    sentinel = taking.read("a Secret and a token", lambda: create_sentinel(kube)) or Sentinel("", 0)
    workload = NewWorkload(kube, clock) if sentinel.digest else None  # its pod has the sentinel's ServiceAccount
    begun = clock.monotonic()
    if workload is not None:
        workload.check()  # it starts while the rest is read
    token = SignedToken(kube) if sentinel.digest else None
    if token is not None:
        token.check()
    servers = taking.read("the instances of kube-apiserver", lambda: running_instances(kube, controllers)) or ()
    answering = tuple(server for server in servers if taking.read(server, partial(kube.raw, "/readyz", server=server)))
    leases, others = taking.read("the controllers' Leases", lambda: held_leases(kube, node_called)) or ({}, {})
    admitted, refused = taking.read("admission", lambda: admitted_templates(kube)) or ({}, {})
    taking.missing += [NotCompared(f"Lease {name}", why) for name, why in others.items()]
    taking.missing += [NotCompared(f"a pod of {name}", why) for name, why in refused.items()]
    groups = taking.read("API groups", lambda: read_groups(kube)) if version else None
    services = taking.read("APIServices", lambda: available_services(kube))
    backends = partial(silent_backends, kube, services or (), answering or ("",))
    silent = taking.read("aggregated APIs", lambda: tuple(backends())) if services else ()
    for backend, why in silent or ():
        at = f" at {backend.server}" if backend.server else ""
        taking.missing.append(NotCompared(f"APIService {backend.api_service}{at}", why))
    counts = taking.read("the number of objects", lambda: count_objects(kube))
    address = taking.read("the Service kubernetes", lambda: read_cluster_ip(kube))
    ranges = taking.read("ranges of Services", lambda: read_ranges(kube))
    conversions = taking.read("conversions of custom resources", lambda: read_conversions(kube))
    first, read_at = taking.metrics(kube, answering or ("",)), clock.monotonic()
    works = False
    if workload is not None:
        why = _await(workload, clock, begun, interval_seconds, note)
        works = not why
        taking.missing += [NotCompared("a new Deployment", why)] if why else []
    if first:
        clock.sleep(max(0.0, read_at + WINDOW_SECONDS - clock.monotonic()))
    signed = token.check() if token is not None else None
    if token is not None and signed is not None and signed.kind is not VerdictKind.HOLDS:
        taking.missing.append(NotCompared("a token of a new Secret", signed.reason))
        taking.read("the removal of that Secret", token.remove)
    clients = summarize(first, taking.metrics(kube, first))
    leases, still = _renewed(kube, clock, leases, note, node_called)
    taking.missing += [NotCompared(f"Lease {name}", "no process renews it") for name in still]
    taken = Baseline(
        version=version,
        secret_digest=sentinel.digest,
        token_seconds=sentinel.token_seconds,
        servers=answering,
        groups=groups or (),
        api_services=services or (),
        silent_backends=None if silent is None else tuple(backend for backend, _ in silent),
        counts=counts or (),
        templates=tuple(admitted),
        leases=tuple(leases),
        cluster_ip=address or "",
        service_ranges=ranges or (),
        new_workload=works,
        signed_token=signed is not None and signed.kind is VerdictKind.HOLDS,
        conversions=conversions or (),
        clients=clients,
        not_compared=tuple(taking.missing),
    )
    return _proven(kube, taken)


def with_new_sentinel(kube: Kube, taken: Baseline) -> Baseline:
    """The same baseline with a Secret and a token of now, in place of those that a later run has removed."""
    taking = _Taking()
    sentinel = taking.read("a Secret and a token", lambda: create_sentinel(kube)) or Sentinel("", 0)
    missing = (*taken.not_compared, *taking.missing)
    renewed = replace(taken, secret_digest=sentinel.digest, token_seconds=sentinel.token_seconds, not_compared=missing)
    return _proven(kube, renewed if sentinel.digest else replace(renewed, new_workload=False, signed_token=False))


def _renewed(
    kube: Kube, clock: Clock, leases: Mapping[str, str], note: Callable[[str], None], node_called: NodeCalled
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The Leases that are renewed, and the others: without leader election, one of former times still has a holder."""
    seen: dict[str, str] = {}

    def waits() -> str:
        held, _ = held_leases(kube, node_called)
        seen.update((name, time) for name, time in held.items() if leases.get(name, time) != time)
        return ", ".join(leases.keys() - seen.keys())

    what = "the controllers' Leases to be renewed, before the first step"
    wait_until(clock, waits, seconds=_LEASE_SECONDS, interval_seconds=1.0, what=what, note=note)
    return {name: leases[name] for name in leases if name in seen}, tuple(sorted(leases.keys() - seen.keys()))


def _proven(kube: Kube, taken: Baseline) -> Baseline:
    """Without the Secret and the token, if they don't work even now."""
    for server in taken.servers or ("",):
        problem = check_secret(kube, taken, server) if taken.secret_digest else None
        if problem is not None:
            missing = NotCompared("a Secret", problem.reason)
            taken = replace(taken, secret_digest="", not_compared=(*taken.not_compared, missing))
        problem = check_token(kube, taken, server, 0.0) if taken.token_seconds else None
        if problem is not None:
            missing = NotCompared("a ServiceAccount's token", problem.reason)
            taken = replace(taken, token_seconds=0, not_compared=(*taken.not_compared, missing))
    return taken


class _Taking:
    """Collects what could not be read."""

    def __init__(self) -> None:
        self.missing: list[NotCompared] = []

    def read(self, what: str, ask: Callable[[], _T]) -> _T | None:
        try:
            return ask()
        except ApiError as error:
            self.missing.append(NotCompared(what, error.message))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            self.missing.append(NotCompared(what, f"the answer can't be read: {error!r}"))
        return None

    def metrics(self, kube: Kube, servers: Iterable[str]) -> dict[str, Counters]:
        """A reading of each instance that can be read."""
        found = {server: self.read(f"metrics {server}".rstrip(), partial(_metrics, kube, server)) for server in servers}
        return {server: seen for server, seen in found.items() if seen is not None}


def _metrics(kube: Kube, server: str) -> Counters:
    found = parse(kube.raw("/metrics", server=server))
    if not found.start or not found.requests:
        raise ValueError("it has no apiserver_request_total")
    return found


def _await(
    workload: NewWorkload, clock: Clock, begun: float, interval_seconds: float, note: Callable[[str], None]
) -> str:
    """Wait for a new Deployment's whole life; why it didn't work, "" when it did."""
    told = False
    while True:
        verdict = workload.check()
        spent = clock.monotonic() - begun
        if verdict.kind is VerdictKind.HOLDS:
            return ""
        if verdict.kind is VerdictKind.BROKEN or spent >= _WORKLOAD_SECONDS:
            return verdict.reason
        if spent >= _QUIET_SECONDS and not told:
            note("taking a baseline of what works before the first step; testing a new Deployment")
            told = True
        clock.sleep(interval_seconds)
