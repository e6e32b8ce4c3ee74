"""Checks the invariants of `decide` (I1 to I8) once more, before anything on disk is changed.

The checks go by the history and the disk alone, not by how the decision was made: a mistake there costs a pass that
changes nothing, not what restores the API. As every pass decides again, nothing else has to be undone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from upgrader.in_cluster.checkpointer.decision.durations import History
from upgrader.in_cluster.checkpointer.decision.rules import Desired, expired
from upgrader.in_cluster.checkpointer.decision.settings import Settings
from upgrader.onhost.node.generation_choice import WorkloadInventory
from upgrader.onhost.node.workload_policy import Policy, Workload

Disk = Mapping[Workload, WorkloadInventory]


@dataclass(frozen=True)
class Violation:
    """An invariant that a plan would break. `invariant`: `I1` to `I8`."""

    invariant: str
    workload: Workload
    text: str

    def __str__(self) -> str:
        return f"{self.workload}: invariant {self.invariant} is violated, so nothing of it is deleted: {self.text}"


def checked(plan: Desired, history: History, disk: Disk, settings: Settings) -> tuple[Desired, tuple[Violation, ...]]:
    """What of the plan may be carried out, and what is wrong with the rest.

    Of a workload with a violation nothing is deleted or replaced. Starting its standby pod where none is active is held
    back by I4 alone, and a capture by I1: neither removes anything.
    """
    found = (*_captures(plan, history, settings), *(v for w in disk for v in _of(w, plan, history, disk[w], settings)))
    if not found:
        return plan, ()
    bad = {v.workload for v in found}
    unproven, groundless = ({v.workload for v in found if v.invariant == name} for name in ("I1", "I4"))
    kept = {
        workload: number
        for workload, number in plan.manifests.items()
        if workload not in bad or (not disk[workload].active and workload not in groundless)
    }
    return (
        replace(
            plan,
            capture=tuple(pod for pod in plan.capture if pod.workload not in unproven),
            failed={workload: number for workload, number in plan.failed.items() if workload not in bad},
            manifests=kept,
            prune=tuple(entry for entry in plan.prune if entry[0] not in bad),
            forget=tuple(workload for workload in plan.forget if workload not in bad),
        ),
        found,
    )


def _captures(plan: Desired, history: History, settings: Settings) -> Iterator[Violation]:
    for pod in plan.capture:
        since = history.of(pod.workload).ready_since.get((pod.uid, pod.digest or ""))
        if not history.lasted(since, settings.ready_for):
            yield Violation("I1", pod.workload, f"pod {pod.name} has not been Ready for long enough to be captured")


def _of(
    workload: Workload, plan: Desired, history: History, before: WorkloadInventory, settings: Settings
) -> Iterator[Violation]:
    placed = plan.manifests.get(workload, before.active_number)
    pruned = {number for of, number in plan.prune if of == workload}
    ends = before.active and workload in plan.manifests and placed is None
    forgotten = workload in plan.forget
    if forgotten and not expired(workload, before.policy, history, settings):
        yield Violation("I8", workload, "its checkpoint would be removed while it may be needed here")
    if (ends or pruned or forgotten) and (history.answering_since is None or not history.runtime_known):
        yield Violation(
            "I2",
            workload,
            "something would be deleted while it is unknown whether the API and the container runtime work",
        )
    if ends and not forgotten and not _stands(workload, history, before.policy, settings):
        yield Violation("I5", workload, "the standby pod would end before anything else is known to be Ready")
    if placed is not None and not before.active and not _needed(workload, history, before.policy):
        yield Violation("I4", workload, "the standby pod would start without evidence that it is needed")
    if placed is not None and before.active and placed != before.active_number:
        yield from _switch(workload, plan, history, before, settings)
    last = before.last_good.number if before.last_good else None
    if pruned & {before.active_number, placed, last}:
        yield Violation("I6", workload, "the generation in use, or the last-known-good one, would be deleted")


def _switch(
    workload: Workload, plan: Desired, history: History, before: WorkloadInventory, settings: Settings
) -> Iterator[Violation]:
    """From one generation to another."""
    seen, whole = history.of(workload).standby, any(g.number == before.active_number for g in before.intact)
    up = seen is not None and seen.up_since is not None
    if before.policy is Policy.ALWAYS:
        if whole and not history.lasted(history.answering_since, settings.release_after):
            yield Violation("I3", workload, "the checkpointer's own standby pod would restart while it may be needed")
        return
    if not whole:
        if before.active_number is not None and (up or not history.runtime_known):
            yield Violation("I3", workload, "a damaged generation would be replaced while it may run")
        return
    since = seen.failing_since if seen is not None and seen.number == before.active_number and not up else None
    if not history.lasted(since, settings.crash_grace):
        yield Violation("I3", workload, "a generation that has not verifiably failed would be replaced")
    if plan.failed.get(workload) != before.active_number:
        yield Violation("I7", workload, "a generation that is not marked as failed would be replaced")
    bare = {g.number for g in before.intact if g.has_images is False}
    untried = {g.number for g in before.intact if not g.failed} - {before.active_number} - bare
    if untried and plan.manifests.get(workload) not in untried:
        yield Violation("I7", workload, "a generation would be tried again before others were tried")


def _stands(workload: Workload, history: History, policy: Policy, settings: Settings) -> bool:
    line = history.of(workload)
    since = [line.parent_ready_since, line.barred_since]
    if policy is Policy.LEASE:
        since += [line.lease_elsewhere_since, line.ownerless_since]
    calm = history.lasted(history.answering_since, settings.release_after)
    return calm and policy is not Policy.ALWAYS and any(history.lasted(at, settings.release_after) for at in since)


def _needed(workload: Workload, history: History, policy: Policy) -> bool:
    line = history.of(workload)
    asked = history.answering_since if policy is Policy.LEASE else history.away_since
    down = line.absent_since is not None or line.unstable_since is not None
    return policy is Policy.ALWAYS or (history.runtime_known and asked is not None and down and not line.barred)
