"""Lock, observe, decide, apply; once every interval, and quicker while the API is away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from upgrader.checkpointer.checkpointer_errors import ApiError, StoreError
from upgrader.checkpointer.decision.durations import History, advance
from upgrader.checkpointer.decision.invariants import checked
from upgrader.checkpointer.decision.rules import Desired, decide
from upgrader.checkpointer.logs import LOG
from upgrader.checkpointer.observation.observer import CHANGED, Look, Observer, lease_of
from upgrader.checkpointer.observed import ApiState, ParentPod, Settings
from upgrader.checkpointer.reporting.pass_report import Board, Counters, Report, WorkloadReport
from upgrader.checkpointer.static_pods.pods import Pod, condition, owner_kind, template_hash
from upgrader.checkpointer.storage.node_lock import NodeLock, changing
from upgrader.checkpointer.storage.store import Store
from upgrader.node.generation import Origin, Record
from upgrader.node.inventory import StoredWorkload
from upgrader.node.workload import Policy, Workload

_HASTE = 10
"""While the API is away and no copy stands in yet, passes follow each other this much quicker: after a power cut, the
time between the first two is time without an API. Once a copy is starting, the CPU is better left to it.
"""

_GAP = 0.1
"""Seconds between two passes, at least: a person who waits for the right to change files must get a turn."""

_CHANGE_WAIT = 5.0
"""Seconds for which a pass waits for somebody else who changes files just now."""

_YIELDING = 3
"""Passes for which a copy that let the lock go leaves it to the DaemonSet's pod, which looks once every pass."""


class ConditionWriter(Protocol):
    """What the loop needs of the API server to say what it did; raises ApiError."""

    def set_condition(self, namespace: str, pod: str, status: str, reason: str, message: str, now: str) -> None:
        """Write our condition on a pod."""


@dataclass
class Loop:
    """One instance. ``own``: whether a pod is the checkpointer's own. ``copy``: this is the static copy."""

    store: Store
    lock: NodeLock
    observer: Observer
    conditions: ConditionWriter
    board: Board
    settings: Settings
    interval: float
    node: str
    own: Callable[[Pod], bool]
    copy: bool = False
    clock: Callable[[], float] = time.monotonic
    _history: History = field(default_factory=History)
    _counters: Counters = field(default_factory=Counters)
    _yielding_until: float = 0.0
    _said: dict[str, str] = field(default_factory=dict)

    def run(self, stop: threading.Event) -> None:
        """Until ``stop`` is set; the pass under way is finished, then the lock is let go."""
        try:
            while not stop.is_set():
                started = self.clock()
                report = self.once()
                pause = self.interval / _HASTE if report.urgent else self.interval
                stop.wait(max(_GAP, started + pause - self.clock()))
        finally:
            self.lock.release()

    def once(self) -> Report:
        """One pass; what it found, also published. Never raises for what the node, the API or the runtime do."""
        started = self.clock()
        self._counters = replace(self._counters, passes=self._counters.passes + 1)
        try:
            acting = started >= self._yielding_until and self.lock.acquire()
            if acting:
                with changing(self.store.change_lock, _CHANGE_WAIT):
                    report = self._act()
            else:
                report = self._stand_by()
        except (StoreError, OSError) as error:
            report = Report(self.clock(), acting=True, failure=str(error))
        if report.failure:
            self._counters = replace(self._counters, failures=self._counters.failures + 1)
        self._say("failure", report.failure)
        report = replace(report, at=self.clock(), seconds=self.clock() - started)
        self.board.put(report, self._counters)
        return report

    def _stand_by(self) -> Report:
        # What was seen before another instance acted says nothing about now.
        self._history = History()
        self._say("role", "standby: the other instance of this node acts")
        return Report(self.clock(), acting=False)

    def _act(self) -> Report:
        self._say("role", "acting")
        failures = list(self.store.prepare())
        disk = self.store.read()
        failures += [s.trouble for s in disk.values() if s.trouble]
        look = self.observer.look(disk)
        self._say("complaints", "; ".join(look.complaints))
        self._history = advance(self._history, look.seen, disk, self.settings.ready_for)
        holdings = {w: s.inventory(look.images) for w, s in disk.items()}
        plan = decide(self._history, look.seen.parents, holdings, self.settings)
        desired, violations = checked(plan, self._history, holdings, self.settings)
        failures += map(str, violations)
        self._counters = replace(
            self._counters, invariant_violations=self._counters.invariant_violations + len(violations)
        )
        failures += self._apply(desired, look, disk)
        shelves = self.store.read()
        pending = self._pending(look, shelves)
        self._tell(look, pending, shelves)
        self._yield(look, disk)
        return Report(
            self.clock(),
            acting=True,
            api=look.seen.api,
            runtime_known=look.seen.runtime is not None,
            pending=self._unsafe(pending, look, shelves),
            workloads={w: _workload_report(s, desired.reasons.get(w, "")) for w, s in shelves.items()},
            down=self._down(disk),
            failure="; ".join(failures),
            urgent=look.seen.api is ApiState.AWAY and not failures and not _stands_in(shelves),
        )

    def _down(self, disk: Mapping[Workload, StoredWorkload]) -> tuple[str, ...]:
        """Copies that should run and don't: after a power cut, that of the checkpointer itself is all there is."""
        down: list[str] = []
        for workload in disk:
            copy = self._history.of(workload).copy
            if copy is not None and self._history.lasted(copy.down_since, self.settings.crash_grace):
                down.append(f"{workload}: its copy, generation {copy.number}, does not stay up")
        return tuple(down)

    def _yield(self, look: Look, disk: Mapping[Workload, StoredWorkload]) -> None:
        """The copy lets a Ready pod of the DaemonSet act, once there is nothing left that it has to see through.

        Otherwise the lock would stay with the old version for the whole of an upgrade.
        """
        ready = any(p.ready and not p.terminating and self.own(look.pods[p.uid]) for p in look.seen.parents)
        if self.copy and ready and not _stands_in(disk):
            self.lock.release()
            self._yielding_until = self.clock() + _YIELDING * self.interval

    def _apply(self, desired: Desired, look: Look, disk: Mapping[Workload, StoredWorkload]) -> list[str]:
        """Make the disk as desired. One workload's trouble doesn't stop the others; all troubles are returned."""
        failures: list[str] = []
        for work in self._work(desired, look, disk):
            try:
                work()
            except StoreError as error:
                failures.append(str(error))
        for workload, shelf in disk.items():
            wrong = "; ".join(f"generation {n}: {text}" for n, text in sorted(shelf.damaged.items()))
            self._say(f"damage {workload}", wrong)
        return failures

    def _work(
        self, desired: Desired, look: Look, disk: Mapping[Workload, StoredWorkload]
    ) -> Iterator[Callable[[], None]]:
        """What there is to do, in order: what a power cut may need first comes first."""
        for workload, number in desired.failed.items():
            yield partial(self._mark, workload, number, desired.reasons.get(workload, ""))
        for workload, wanted in desired.manifests.items():
            yield partial(self._place, workload, wanted, disk[workload], desired.reasons.get(workload, ""))
        for pod in desired.capture:
            shelf = disk.get(pod.workload)
            if shelf is None or not shelf.trouble:
                yield partial(self._capture, pod, look)
        for workload, number in desired.prune:
            yield partial(self._prune, workload, number)

    def _mark(self, workload: Workload, number: int, reason: str) -> None:
        self.store.mark_failed(workload, number, reason)
        LOG.warning("copy failed", extra={"workload": str(workload), "generation": number, "reason": reason})

    def _prune(self, workload: Workload, number: int) -> None:
        self.store.prune(workload, number)
        LOG.info("generation pruned", extra={"workload": str(workload), "generation": number})

    def _place(self, workload: Workload, number: int | None, shelf: StoredWorkload, reason: str) -> None:
        extra = {"workload": str(workload), "generation": number or shelf.active_number, "reason": reason}
        if number is None:
            if self.store.withdraw(workload):
                self._counters = replace(self._counters, releases=self._counters.releases + 1)
                LOG.info("copy withdrawn", extra=extra)
        elif self.store.activate(workload, number):
            self._counters = replace(self._counters, activations=self._counters.activations + 1)
            LOG.warning("copy put in place", extra=extra)

    def _capture(self, parent: ParentPod, look: Look) -> None:
        pod = look.pods[parent.uid]
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
        number = self.store.capture(look.candidates[parent.uid], policy, lease, origin)
        self._counters = replace(self._counters, captures=self._counters.captures + 1)
        LOG.info(
            "generation captured", extra={"workload": str(parent.workload), "generation": number, "pod": parent.name}
        )

    def _pending(self, look: Look, disk: Mapping[Workload, StoredWorkload]) -> dict[ParentPod, tuple[str, str]]:
        """Pods without a current checkpoint, each with (reason, text)."""
        pending: dict[ParentPod, tuple[str, str]] = {}
        for parent in look.seen.parents:
            shelf = disk.get(parent.workload)
            last = shelf.newest if shelf else None
            if parent.terminating:
                continue
            if (
                parent.problem is not None
                and parent.problem[0] == CHANGED
                and self._kept_as_started(parent, look, last)
            ):
                continue
            if parent.problem is not None:
                pending[parent] = parent.problem
            elif not parent.ready:
                pending[parent] = ("PodNotReady", look.doubts.get(parent.uid, "only a Ready pod is checkpointed"))
            elif parent.digest is None and self.own(look.pods[parent.uid]):
                pending[parent] = ("Proving", "waiting until it has acted itself")
            elif parent.digest is None:
                pending[parent] = ("Unreadable", "a Secret or ConfigMap that the pod refers to can't be read")
            elif last is None or last.digest != parent.digest:
                pending[parent] = ("Proving", f"waiting until it has been Ready for {self.settings.ready_for:g} s")
        return pending

    def _unsafe(
        self, pending: Mapping[ParentPod, tuple[str, str]], look: Look, shelves: Mapping[Workload, StoredWorkload]
    ) -> dict[str, str]:
        """What keeps us from being Ready: pods without a current checkpoint, and our own copy while there is none.

        That our own copy is of an older version is no reason: it is replaced only once we have been Ready.
        """
        unsafe = {f"{p.namespace}/{p.name}": why for p, (_, why) in pending.items() if not self.own(look.pods[p.uid])}
        for parent in look.seen.parents:
            shelf = shelves.get(parent.workload)
            if self.own(look.pods[parent.uid]) and not parent.terminating and not (shelf and shelf.active):
                unsafe[f"{parent.namespace}/{parent.name}"] = "its own copy is not in place yet"
        return unsafe

    def _kept_as_started(self, parent: ParentPod, look: Look, last: Record | None) -> bool:
        """Whether the last-known-good is of the same pod template: then it is what the pod still runs with."""
        return last is not None and last.origin.template_hash == template_hash(look.pods[parent.uid]) != ""

    def _tell(
        self, look: Look, pending: Mapping[ParentPod, tuple[str, str]], disk: Mapping[Workload, StoredWorkload]
    ) -> None:
        """Write our condition on every pod whose state has changed. It only informs, so a failure is only logged."""
        for parent in look.seen.parents:
            if parent.terminating:
                continue
            reason, text = pending.get(parent, ("Current", ""))
            shelf = disk.get(parent.workload)
            if parent not in pending and shelf is not None and shelf.newest is not None:
                text = f"generation {shelf.newest.number}"
            wanted = ("False" if parent in pending else "True", reason, text)
            if condition(look.pods[parent.uid]) == wanted:
                continue
            try:
                self.conditions.set_condition(parent.namespace, parent.name, *wanted, _now())
            except ApiError as error:
                self._say(f"condition {parent.uid}", f"the condition of pod {parent.name} can't be written: {error}")

    def _say(self, topic: str, text: str) -> None:
        """Log a state when it changes, not on every pass."""
        if self._said.get(topic, "") == text:
            return
        self._said[topic] = text
        if topic == "role":
            LOG.info(text)
        else:
            LOG.warning(text or "over", extra={"topic": topic})


def _stands_in(disk: Mapping[Workload, StoredWorkload]) -> bool:
    """Whether a copy is in place that isn't always there."""
    return any(s.active for s in disk.values() if s.newest is None or s.newest.policy is not Policy.ALWAYS)


def _workload_report(shelf: StoredWorkload, reason: str) -> WorkloadReport:
    number = shelf.newest.number if shelf.newest else 0
    return WorkloadReport(number, len(shelf.records), len(shelf.damaged), len(shelf.failed), shelf.active, reason)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
