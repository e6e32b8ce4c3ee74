"""The gate that compares the API with what it was before the run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime

from upgrader.errors import ApiError
from upgrader.gates.continuity.admission import check_admission
from upgrader.gates.continuity.api_services import ApiServiceWatch, deleted_versions
from upgrader.gates.continuity.conversions import ConversionWatch
from upgrader.gates.continuity.findings import contradicted
from upgrader.gates.continuity.leader_leases import LeaseWatch, NodeCalled
from upgrader.gates.continuity.object_counts import check_counts
from upgrader.gates.continuity.restarts import Restarts
from upgrader.gates.continuity.running_instances import FollowedInstances
from upgrader.gates.continuity.sentinel import check_secret, check_token
from upgrader.gates.continuity.served_groups import check_groups
from upgrader.gates.continuity.service_range import check_service_range
from upgrader.model.baseline import Baseline
from upgrader.model.outcome import Verdict, VerdictKind, holds
from upgrader.ports import Clock, Kube

__all__ = ["LEAST_CHECKS", "ContinuityGate"]

LEAST_CHECKS = 3
"""Checks in a row that ask everything: each asks a third of the slower questions."""

_TURN_OF_SERVICES, _TURN_OF_BACKENDS = 1, 2
"""Not one turn: the first has most of the requests beside it, and the second the fewest."""


class ContinuityGate:
    """Everything that worked before the run still works: credentials, Secrets, tokens, API groups, APIServices,
    objects, admission, controllers, Service addresses, and conversions of custom resources.

    Each check asks one instance of kube-apiserver in turn, and a third of the slower questions in turn. A question that
    finds a problem is asked in every check until it finds none; one that still waits after two comes again in its turn,
    and until then the gate doesn't hold.
    """

    name = "continuity"

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        baseline: Callable[[], Baseline],
        taken: Callable[[], datetime],
        removed: Collection[str],
        controllers: Collection[str],
        restarts: Restarts | None,
        node_called: NodeCalled,
    ) -> None:
        """`removed`: the group versions that the plan removes. `controllers`: the names of their nodes. `restarts`: for
        what others serve; None where the step was undone, which repairs nothing that has ended by itself.
        """
        self._kube, self._clock, self._removed = kube, clock, removed
        self._baseline, self._taken = baseline, taken
        self._leases = LeaseWatch(node_called)
        self._conversions = ConversionWatch(restarts.conversions) if restarts else None
        self._services = ApiServiceWatch(restarts.services) if restarts else None
        self._followed = FollowedInstances(kube, controllers)
        self._deleted: frozenset[str] = frozenset()
        """The group versions that were deleted during the run, by others."""
        self._instance = 0
        self._turn = 0
        self._waiting: dict[int, Verdict] = {}
        """What each of the slower questions waited for when it was last asked."""
        self._waiting_instances: dict[str, Verdict] = {}
        """The same of each instance."""

    def check(self) -> Verdict:
        """Ask; the first answer that contradicts the baseline is the verdict."""
        baseline = self._baseline()
        try:
            servers = self._followed.now(baseline.servers)
        except ApiError as error:
            _skip(self._services, self._conversions)
            return contradicted(
                "the list of kube-apiserver's pods", error, "Check the pods: kubectl -n kube-system get pods"
            )
        asked = self._instance
        verdict = self._of_next_instance(baseline, servers)
        if verdict is None or verdict.kind is VerdictKind.PENDING:
            slower = self._in_turn(baseline, servers)
            if verdict is None or (slower is not None and slower.kind is VerdictKind.BROKEN):
                verdict = slower
        else:
            _skip(self._services)
        if verdict is not None:
            _skip(self._conversions)
        elif self._conversions:
            verdict = self._conversions.check(self._kube, baseline, servers[asked % len(servers)])
            if verdict is not None and verdict.kind is VerdictKind.BROKEN:
                self._instance = asked
        if verdict is not None:
            self._prepare_next(baseline, verdict)
            return verdict
        missing = "".join(f"; not compared: {item.what} ({item.why})" for item in baseline.not_compared)
        deleted = f"; deleted during the run: {', '.join(sorted(self._deleted))}" if self._deleted else ""
        return holds(f"everything that worked before this run still works{missing}{deleted}")

    def _prepare_next(self, baseline: Baseline, verdict: Verdict) -> None:
        """Read again what may explain a problem that isn't definite."""
        if verdict.kind is VerdictKind.UNKNOWN:
            self._followed.forget()
        elif verdict.kind is VerdictKind.PENDING:
            with suppress(ApiError):  # the problem itself is what is reported
                self._deleted = deleted_versions(self._kube, baseline)

    @property
    def _expected(self) -> Collection[str]:
        return {*self._removed, *self._deleted}

    def _of_next_instance(self, baseline: Baseline, servers: Sequence[str]) -> Verdict | None:
        """Of the one whose turn it is, or else of one that waits; the turn stays with one that is refused something."""
        server = servers[self._instance % len(servers)]
        verdict = self._of_instance(baseline, server)
        self._waiting_instances.pop(server, None)
        if verdict is not None and verdict.kind is not VerdictKind.PENDING:
            return verdict
        if verdict is not None:
            self._waiting_instances[server] = verdict
        self._instance += 1
        return next((self._waiting_instances[each] for each in servers if each in self._waiting_instances), None)

    def _of_instance(self, baseline: Baseline, server: str) -> Verdict | None:
        age = (self._clock.now() - self._taken()).total_seconds()
        return (
            (check_secret(self._kube, baseline, server) if baseline.secret_digest else None)
            or (check_token(self._kube, baseline, server, age) if baseline.token_seconds else None)
            or (check_groups(self._kube, baseline, server, self._expected) if baseline.groups else None)
        )

    def _in_turn(self, baseline: Baseline, servers: Sequence[str]) -> Verdict | None:
        """Of the question whose turn it is, or else of one that waits: what is refused must not hide behind it."""
        turn = self._turn % LEAST_CHECKS
        # The Leases' turn is the last: by then, each has been renewed since the first check.
        verdict = self._question(turn, baseline, servers) or self._leases.begin(self._kube, baseline)
        waited = self._waiting.pop(turn, None)
        if verdict is not None:
            if verdict.kind is not VerdictKind.PENDING:
                if turn not in (_TURN_OF_SERVICES, _TURN_OF_BACKENDS):
                    _skip(self._services)
                return verdict
            self._waiting[turn] = verdict
            if waited is None:
                return verdict  # most have by the next check what they wait for
        self._turn += 1
        return next(iter(self._waiting.values()), None)

    def _question(self, turn: int, baseline: Baseline, servers: Sequence[str]) -> Verdict | None:
        match turn:
            case 0:
                return check_admission(self._kube, baseline)
            case each if each == _TURN_OF_SERVICES:
                services = self._services and self._services.check(self._kube, baseline, self._expected)
                return services or check_counts(self._kube, baseline)
            case _:
                backends = self._services.ask(self._kube, baseline, servers) if self._services else None
                if backends is not None and backends.kind is VerdictKind.BROKEN:
                    return backends
                return (
                    (self._leases.check(self._kube, baseline) if baseline.leases else None)
                    or check_service_range(self._kube, baseline)
                    or backends
                )


def _skip(*watches: ApiServiceWatch | ConversionWatch | None) -> None:
    """Tell them that what is asked before them wasn't answered."""
    for watch in watches:
        if watch is not None:
            watch.skip()
