"""Lock, observe, decide, apply; once every interval, and quicker while the API is unreachable."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from upgrader.in_cluster.checkpointer.checkpointer_errors import ApiError, StoreError
from upgrader.in_cluster.checkpointer.decision.durations import History, advance
from upgrader.in_cluster.checkpointer.decision.invariants import checked
from upgrader.in_cluster.checkpointer.decision.rules import Desired, decide
from upgrader.in_cluster.checkpointer.decision.settings import Settings
from upgrader.in_cluster.checkpointer.logs import LOG
from upgrader.in_cluster.checkpointer.observation.observer import CHANGED, ObservedNode, Observer, lease_of
from upgrader.in_cluster.checkpointer.observed_values import ApiState, ParentPod
from upgrader.in_cluster.checkpointer.reporting.pass_report import Board, Counters, Report, WorkloadReport
from upgrader.in_cluster.checkpointer.static_pods.pods import Pod, condition, owner_kind, template_hash
from upgrader.in_cluster.checkpointer.storage.node_lock import NodeLock, changing
from upgrader.in_cluster.checkpointer.storage.store import Store
from upgrader.onhost.node.disk_inventory import StoredWorkload
from upgrader.onhost.node.generation import Origin, Record
from upgrader.onhost.node.workload_policy import Policy, Workload

_HASTE = 10
"""While the API is unreachable and no standby pod is active yet, passes follow each other this much quicker: after a
power cut, the time between the first two is time without an API. Once a standby pod is starting, the CPU is better left
to it.
"""

_GAP_SECONDS = 0.1
"""Seconds between two passes, at least: an operator who waits for the right to change files must get a turn."""

_CHANGE_WAIT_SECONDS = 5.0
"""Seconds for which a pass waits for another process that changes files."""

_YIELDING = 3
"""Passes for which a standby pod doesn't take a lock again that it released: the DaemonSet's pod tries once a pass."""


class ConditionWriter(Protocol):
    """What the loop needs of the API server to report what it did; raises ApiError."""

    def set_condition(self, namespace: str, pod: str, status: str, reason: str, message: str, now: str) -> None:
        """Write our condition on a pod."""


@dataclass
class Loop:
    """One instance. `own`: whether a pod is the checkpointer's own. `standby`: it runs in the standby pod."""

    store: Store
    lock: NodeLock
    observer: Observer
    conditions: ConditionWriter
    board: Board
    settings: Settings
    interval_seconds: float
    node: str
    own: Callable[[Pod], bool]
    standby: bool = False
    clock: Callable[[], float] = time.monotonic
    _history: History = field(default_factory=History)
    _counters: Counters = field(default_factory=Counters)
    _yielding_until: float = 0.0
    _logged: dict[str, str] = field(default_factory=dict)

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set; the pass under way is finished, then the lock is let go."""
        try:
            while not stop.is_set():
                started = self.clock()
                report = self.once()
                pause = self.interval_seconds / _HASTE if report.urgent else self.interval_seconds
                stop.wait(max(_GAP_SECONDS, started + pause - self.clock()))
        finally:
            self.lock.release()

    def once(self) -> Report:
        """One pass; what it found, also published. Never raises for what the node, the API or the runtime do."""
        started = self.clock()
        self._counters = replace(self._counters, passes=self._counters.passes + 1)
        try:
            acting = started >= self._yielding_until and self.lock.acquire()
            if acting:
                with changing(self.store.change_lock, _CHANGE_WAIT_SECONDS):
                    report = self._act()
            else:
                report = self._stand_by()
        except (StoreError, OSError) as error:
            report = Report(self.clock(), acting=True, failure=str(error))
        if report.failure:
            self._counters = replace(self._counters, failures=self._counters.failures + 1)
        self._log_change("failure", report.failure)
        report = replace(report, at=self.clock(), seconds=self.clock() - started)
        self.board.put(report, self._counters)
        return report

    def _stand_by(self) -> Report:
        # What was seen before another instance acted proves nothing now.
        self._history = History()
        self._log_change("role", "standby: another instance on this node is active")
        return Report(self.clock(), acting=False)

    def _act(self) -> Report:
        self._log_change("role", "acting")
        failures = list(self.store.prepare())
        disk = self.store.read()
        failures += [s.trouble for s in disk.values() if s.trouble]
        node = self.observer.observe(disk)
        self._log_change("complaints", "; ".join(node.complaints))
        self._log_change("ignored pods, which are not allowed to have a checkpoint", ", ".join(node.ignored))
        self._history = advance(self._history, node.seen, disk, self.settings.ready_for)
        inventories = {w: s.inventory(node.images) for w, s in disk.items()}
        plan = decide(self._history, node.seen.parents, inventories, self.settings)
        desired, violations = checked(plan, self._history, inventories, self.settings)
        failures += map(str, violations)
        self._counters = replace(
            self._counters, invariant_violations=self._counters.invariant_violations + len(violations)
        )
        failures += self._apply(desired, node, disk)
        disk_after = self.store.read()
        pending = self._pending(node, disk_after)
        self._write_conditions(node, pending, disk_after)
        self._yield(node, disk)
        return Report(
            self.clock(),
            acting=True,
            api=node.seen.api,
            runtime_known=node.seen.runtime is not None,
            pending=self._unsafe(pending, node, disk_after),
            workloads={w: _workload_report(s, desired.reasons.get(w, "")) for w, s in disk_after.items()},
            down=self._down(disk),
            ignored=len(node.ignored),
            failure="; ".join(failures),
            urgent=node.seen.api is ApiState.AWAY and not failures and not _stands_in(disk_after),
        )

    def _down(self, disk: Mapping[Workload, StoredWorkload]) -> tuple[str, ...]:
        """Standby pods that should run and don't: after a power cut, that of the checkpointer itself is all there
        is.
        """
        down: list[str] = []
        for workload in disk:
            standby = self._history.of(workload).standby
            if standby is not None and self._history.lasted(standby.down_since, self.settings.crash_grace):
                down.append(f"{workload}: its standby pod, generation {standby.number}, does not stay up")
        return tuple(down)

    def _yield(self, node: ObservedNode, disk: Mapping[Workload, StoredWorkload]) -> None:
        """The standby pod lets a Ready pod of the DaemonSet act, once there is nothing left that it has to see through.

        Otherwise the lock would stay with the old version for the whole of an upgrade.
        """
        ready = any(p.ready and not p.terminating and self.own(node.pods[p.uid]) for p in node.seen.parents)
        if self.standby and ready and not _stands_in(disk):
            self.lock.release()
            self._yielding_until = self.clock() + _YIELDING * self.interval_seconds

    def _apply(self, desired: Desired, node: ObservedNode, disk: Mapping[Workload, StoredWorkload]) -> list[str]:
        """Make the disk as desired. One workload's trouble doesn't stop the others; all troubles are returned."""
        failures: list[str] = []
        for work in self._work(desired, node, disk):
            try:
                work()
            except StoreError as error:
                failures.append(str(error))
        for workload, stored in disk.items():
            wrong = "; ".join(f"generation {n}: {text}" for n, text in sorted(stored.damaged.items()))
            self._log_change(f"damage {workload}", wrong)
        return failures

    def _work(
        self, desired: Desired, node: ObservedNode, disk: Mapping[Workload, StoredWorkload]
    ) -> Iterator[Callable[[], None]]:
        """What there is to do, in order: what a power cut may need first comes first."""
        for workload, number in desired.failed.items():
            yield partial(self._mark, workload, number, desired.reasons.get(workload, ""))
        for workload, wanted in desired.manifests.items():
            yield partial(self._place, workload, wanted, disk[workload], desired.reasons.get(workload, ""))
        for pod in desired.capture:
            stored = disk.get(pod.workload)
            if stored is None or not stored.trouble:
                yield partial(self._capture, pod, node)
        for workload, number in desired.prune:
            yield partial(self._prune, workload, number)
        for workload in desired.forget:
            yield partial(self._forget, workload, desired.reasons.get(workload, ""))

    def _mark(self, workload: Workload, number: int, reason: str) -> None:
        self.store.mark_failed(workload, number, reason)
        LOG.warning("standby pod failed", extra={"workload": str(workload), "generation": number, "reason": reason})

    def _prune(self, workload: Workload, number: int) -> None:
        self.store.prune(workload, number)
        LOG.info("generation pruned", extra={"workload": str(workload), "generation": number})

    def _forget(self, workload: Workload, reason: str) -> None:
        self.store.forget(workload)
        LOG.warning("checkpoint removed", extra={"workload": str(workload), "reason": reason})

    def _place(self, workload: Workload, number: int | None, stored: StoredWorkload, reason: str) -> None:
        extra = {"workload": str(workload), "generation": number or stored.active_number, "reason": reason}
        if number is None:
            if self.store.deactivate(workload):
                self._counters = replace(self._counters, releases=self._counters.releases + 1)
                LOG.info("standby pod deactivated", extra=extra)
        elif self.store.activate(workload, number):
            self._counters = replace(self._counters, activations=self._counters.activations + 1)
            LOG.warning("standby pod put in place", extra=extra)

    def _capture(self, parent: ParentPod, node: ObservedNode) -> None:
        pod = node.pods[parent.uid]
        lease = lease_of(pod)
        policy = Policy.ALWAYS if self.own(pod) else Policy.LEASE if lease else Policy.API_AWAY
        owner = self.observer.owner(pod)
        origin = Origin(
            pod=parent.name,
            uid=parent.uid,
            node=self.node,
            template_hash=template_hash(pod),
            helm_revision=owner.revision if owner and owner.settled else "",
            captured_at=_now(),
            owner_kind=owner_kind(pod),
            helm_release=owner.release if owner else "",
        )
        number = self.store.capture(node.candidates[parent.uid], policy, lease, origin)
        self._counters = replace(self._counters, captures=self._counters.captures + 1)
        LOG.info(
            "generation captured", extra={"workload": str(parent.workload), "generation": number, "pod": parent.name}
        )

    def _pending(self, node: ObservedNode, disk: Mapping[Workload, StoredWorkload]) -> dict[ParentPod, tuple[str, str]]:
        """Pods without a current checkpoint, each with (reason, text)."""
        pending: dict[ParentPod, tuple[str, str]] = {}
        for parent in node.seen.parents:
            stored = disk.get(parent.workload)
            last = stored.newest if stored else None
            if parent.terminating:
                continue
            if (
                parent.problem is not None
                and parent.problem[0] == CHANGED
                and self._kept_as_started(parent, node, last)
            ):
                continue
            if parent.problem is not None:
                pending[parent] = parent.problem
            elif not parent.ready:
                pending[parent] = ("PodNotReady", node.doubts.get(parent.uid, "only a Ready pod is checkpointed"))
            elif parent.digest is None and self.own(node.pods[parent.uid]):
                pending[parent] = ("Proving", "waiting until this instance is the active one")
            elif parent.digest is None:
                pending[parent] = ("Unreadable", "a Secret or ConfigMap that the pod refers to can't be read")
            elif last is None or last.digest != parent.digest:
                pending[parent] = ("Proving", f"waiting until it has been Ready for {self.settings.ready_for:g} s")
        return pending

    def _unsafe(
        self, pending: Mapping[ParentPod, tuple[str, str]], node: ObservedNode, disk: Mapping[Workload, StoredWorkload]
    ) -> dict[str, str]:
        """What keeps us from being Ready: pods without a current checkpoint, and our own standby pod while there is
        none.

        That our own standby pod is of an older version is no reason: it is replaced only once we have been Ready.
        """
        unsafe = {f"{p.namespace}/{p.name}": why for p, (_, why) in pending.items() if not self.own(node.pods[p.uid])}
        for parent in node.seen.parents:
            stored = disk.get(parent.workload)
            if self.own(node.pods[parent.uid]) and not parent.terminating and not (stored and stored.active):
                why = f": {parent.problem[1]}" if parent.problem else ""
                unsafe[f"{parent.namespace}/{parent.name}"] = f"its own standby pod is not in place yet{why}"
        return unsafe

    def _kept_as_started(self, parent: ParentPod, node: ObservedNode, last: Record | None) -> bool:
        """Whether the last-known-good is of the same pod template: then it is what the pod still runs with."""
        return last is not None and last.origin.template_hash == template_hash(node.pods[parent.uid]) != ""

    def _write_conditions(
        self, node: ObservedNode, pending: Mapping[ParentPod, tuple[str, str]], disk: Mapping[Workload, StoredWorkload]
    ) -> None:
        """Write our condition on every pod whose state has changed. It only informs, so a failure is only logged."""
        for parent in node.seen.parents:
            if parent.terminating:
                continue
            reason, text = pending.get(parent, ("Current", ""))
            stored = disk.get(parent.workload)
            if parent not in pending and stored is not None and stored.newest is not None:
                text = f"generation {stored.newest.number}"
            wanted = ("False" if parent in pending else "True", reason, text)
            if condition(node.pods[parent.uid]) == wanted:
                continue
            try:
                self.conditions.set_condition(parent.namespace, parent.name, *wanted, _now())
            except ApiError as error:
                self._log_change(
                    f"condition {parent.uid}", f"the condition of pod {parent.name} can't be written: {error}"
                )

    def _log_change(self, topic: str, text: str) -> None:
        """Log a state when it changes, not on every pass."""
        if self._logged.get(topic, "") == text:
            return
        self._logged[topic] = text
        if topic == "role":
            LOG.info(text)
        else:
            LOG.warning(text or "over", extra={"topic": topic})


def _stands_in(disk: Mapping[Workload, StoredWorkload]) -> bool:
    """Whether a standby pod is in place that isn't always there."""
    return any(s.active for s in disk.values() if s.newest is None or s.newest.policy is not Policy.ALWAYS)


def _workload_report(stored: StoredWorkload, reason: str) -> WorkloadReport:
    number = stored.newest.number if stored.newest else 0
    return WorkloadReport(number, len(stored.records), len(stored.damaged), len(stored.failed), stored.active, reason)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
