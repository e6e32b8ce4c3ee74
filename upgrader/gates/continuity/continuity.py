"""Continuity of one run: its baseline, the gates that compare with it, and the end of the sentinel."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import datetime

from upgrader.errors import ApiError, UsageError
from upgrader.gates.continuity.admission import KUBE_APISERVER_TEMPLATE
from upgrader.gates.continuity.api_services import REPAIR, group_version, lost_service
from upgrader.gates.continuity.clients_gate import ClientsGate
from upgrader.gates.continuity.continuity_gate import LEAST_CHECKS, ContinuityGate
from upgrader.gates.continuity.conversions import lost_conversion
from upgrader.gates.continuity.host_names import not_asked
from upgrader.gates.continuity.leader_leases import NodeCalled
from upgrader.gates.continuity.new_workload import remove_workloads
from upgrader.gates.continuity.restarts import Lost, Restarts, RestartWatch
from upgrader.gates.continuity.restored_services import restore_services
from upgrader.gates.continuity.sentinel import remove_sentinel
from upgrader.gates.continuity.served_groups import built_in, missing_at
from upgrader.gates.continuity.signed_token import remove_signed_tokens
from upgrader.gates.continuity.take_baseline import take_baseline, with_new_sentinel
from upgrader.gates.continuity.workload_gate import WorkloadGate
from upgrader.model.baseline import Baseline
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.pipeline import Gate, GateRun, Pipeline, PipelineStep
from upgrader.ports import Clock, Kube

__all__ = ["Continuity"]


_RESTORE_TRIES = 5
_POLL_SECONDS = 2.0
_SLOWEST_LOOKS = 2.0
"""At most so many seconds between two looks at the baseline's Deployment."""


@dataclass(frozen=True)
class _Patient:
    """After an undo nothing is final before the deadline: what was undone may answer until it has ended."""

    gate: Gate

    @property
    def name(self) -> str:
        return self.gate.name

    def check(self) -> Verdict:
        verdict = self.gate.check()
        return replace(verdict, kind=VerdictKind.PENDING) if verdict.kind is VerdictKind.BROKEN else verdict


@dataclass
class Continuity:
    """What the runner and its gates share: the baseline is known only once the run has begun."""

    kube: Kube
    clock: Clock
    controllers: tuple[str, ...]
    """The names of their nodes: each should have an instance of kube-apiserver."""
    removed: Collection[str]
    """The group versions of the API that the run removes."""
    policy: GatePolicy
    sentinel_is_gone: bool = False
    """Whether another run has been here since the baseline was taken: it had its own sentinel, and removed it."""
    baseline: Baseline | None = None
    taken: datetime | None = None
    node_called: NodeCalled = not_asked
    starts: dict[str, str] = field(default_factory=dict)
    """Instance of kube-apiserver → when its process started, as the gates of the last step have seen it."""
    _undone: float = field(init=False, default=0.0)
    """When the newest undo was in place (monotonic)."""
    _restarted: bool = field(init=False, default=False)
    """Whether it has started kube-apiserver."""
    _restarts: Restarts = field(init=False)

    def __post_init__(self) -> None:
        self._restarts = Restarts(self.clock)

    def take(self, note: Callable[[str], None], *, begun: bool) -> Baseline:
        """Take the baseline, and put the sentinel; `note` takes lines of progress.

        `begun`: the run has made changes already. Their rollback may remove the APIs that they brought.
        """
        # Twice as often as gates are checked: every half second, and less often on a large cluster.
        looks = min(self.policy.interval_seconds / 2, _SLOWEST_LOOKS)
        found = take_baseline(self.kube, self.clock, note, self.controllers, looks, self.node_called)
        if not begun:
            return found
        services = tuple(name for name in found.api_services if built_in(group_version(name)))
        return replace(found, groups=tuple(filter(built_in, found.groups)), api_services=services)

    def again(self, taken: Baseline) -> Baseline | None:
        """The baseline of an earlier process as it can be compared with now; None: as it is."""
        return with_new_sentinel(self.kube, taken) if self.sentinel_is_gone else None

    @property
    def pods_were_admitted(self) -> bool:
        """Whether a pod of kube-apiserver's Deployment was admitted before the run."""
        return self.baseline is not None and KUBE_APISERVER_TEMPLATE in self.baseline.templates

    def restore_services(self, note: Callable[[str], None], *, restarted: bool) -> None:
        """What an API server that was replaced had deleted, and no right one makes again; what fails is noted. To be
        called as soon as an undo is in place; `restarted`: it has started kube-apiserver.

        Asked on new connections, a few times: what was undone may still answer some of them.
        """
        self._undone, self._restarted = self.clock.monotonic(), restarted
        if self.baseline is None:
            return
        try:
            for attempt in range(_RESTORE_TRIES):
                if attempt:
                    self.clock.sleep(1.0)
                self.kube.reconnect()
                missing = tuple(filter(built_in, missing_at(self.kube, self.baseline, self.removed)))
                if not missing:
                    return
                for group_version in restore_services(self.kube, missing):
                    note(f"{group_version} was served but not listed: its APIService is restored")
        except (ApiError, UsageError, ValueError, KeyError, TypeError) as error:
            note(f"the list of API groups can't be restored: {error}")

    def left_failing(self) -> Lost | None:
        """What worked before the run and fails behind a rollback, whose gates don't ask for it; None for nothing."""
        if self.baseline is None:
            return None
        since: dict[str, float] = {}
        while (found := self._lost(self.baseline)) is not None:
            watch, lost = found
            now = self.clock.monotonic()
            fails, undone = now - since.setdefault(lost.name, now), now - self._undone
            if watch.is_lost(lost.name, fails=fails, undone=undone, restarted=self._restarted):
                watch.give_up(lost.name)
                return lost
            self.clock.sleep(_POLL_SECONDS)
        return None

    def _lost(self, baseline: Baseline) -> tuple[RestartWatch, Lost] | None:
        """The first, and what knows how long it may fail."""
        try:
            if conversion := lost_conversion(self.kube, baseline):
                return self._restarts.conversions, conversion
            service = lost_service(self.kube, baseline)
        except ApiError as error:
            said = f"it is unknown whether the aggregated APIs answer: {error.message}"
            service = Lost("aggregated APIs", said, REPAIR)
        return (self._restarts.services, service) if service else None

    def compare_with(self, baseline: Baseline, taken: datetime) -> None:
        """Compare with this baseline from now on."""
        self.baseline, self.taken = baseline, taken

    def end(self, *, keep_sentinel: bool) -> None:
        """Remove what is no longer needed; a run that can be resumed needs its sentinel. Raises ApiError."""
        remove_workloads(self.kube)
        remove_signed_tokens(self.kube)
        if not keep_sentinel:
            remove_sentinel(self.kube)

    def around(self, pipeline: Pipeline) -> Pipeline:
        """The pipeline with gates on each step that changes something, and on its undo.

        What clients see is not a gate of an undo: it is noisy, and a rollback should complete whatever it cost them.
        """
        return Pipeline(tuple(map(self._around, pipeline.steps)))

    def _around(self, item: PipelineStep) -> PipelineStep:
        if not item.changes:
            return item
        gates = (*item.gates, self._compared(), self._workload(), self._clients(item))
        return replace(
            item, gates=gates, undo_gates=(*item.undo_gates, self._compared(undone=True), self._workload(_Patient))
        )

    def _compared(self, *, undone: bool = False) -> GateRun:
        restarts = None if undone else self._restarts

        def gate() -> Gate:
            made = ContinuityGate(
                self.kube,
                self.clock,
                self._known,
                self._since,
                self.removed,
                self.controllers,
                restarts,
                self.node_called,
            )
            return _Patient(made) if undone else made

        often = max(self.policy.consecutive, LEAST_CHECKS, len(self.controllers))
        return GateRun(gate(), replace(self.policy, consecutive=often), gate)

    def _workload(self, wrap: Callable[[Gate], Gate] = lambda gate: gate) -> GateRun:
        def gate() -> Gate:
            return wrap(WorkloadGate(self.kube, self.clock, self._known))

        return GateRun(gate(), replace(self.policy, consecutive=1), gate)

    def _clients(self, item: PipelineStep) -> GateRun:
        def gate() -> ClientsGate:
            return ClientsGate(
                self.kube,
                self.clock,
                self._known,
                self.controllers,
                changes_logins=item.changes_logins,
                starts=self.starts,
            )

        def begun() -> Gate:
            # A bake has its gates made with the pipeline, before there is a baseline, and again when it begins.
            return gate().begun() if self.baseline else gate()

        return GateRun(gate(), replace(self.policy, consecutive=1), begun)

    def _known(self) -> Baseline:
        assert self.baseline is not None, "gates are checked after the run has begun"
        return self.baseline

    def _since(self) -> datetime:
        assert self.taken is not None
        return self.taken
