"""Whether a StatefulSet's rollout is complete, regardless of what replaces its pods: its controller, guard, or people.

With the strategy OnDelete its controller replaces no pod, and Helm calls a release complete before one was replaced. So
what counts is its pods, by their owner. A DaemonSet with that strategy has pods of an older revision in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from upgrader.gates.remedies import delete_pods, describe_workload
from upgrader.gates.workload_reading import Reading
from upgrader.model.first_few import first_few
from upgrader.model.outcome import Verdict, holds, pending
from upgrader.model.workload import Pod, Workload

__all__ = ["judge_stateful_set", "new_and_ready", "not_observed", "not_replaced", "replacing", "stale_pods"]


def judge_stateful_set(reading: Reading, just_restarted: Callable[[Pod], str]) -> Verdict:
    """`holds` when every pod that the set wants is there, has its new revision and is Ready, and no other is left.

    `just_restarted` says of a Ready pod why that isn't to be trusted yet; "" when it is. Raises ApiError.
    """
    workload = reading.workload
    ref = workload.ref
    if not workload.observed:
        return pending(f"{ref}: {not_observed(workload)}", remedy=describe_workload(ref))
    stale = stale_pods(reading)
    missing = not_replaced(workload, stale) or _others(reading, just_restarted)
    if missing:
        return pending(f"{new_and_ready(reading)}; {missing}", remedy=replacing(workload, stale))
    kept = min(workload.ordered.kept, workload.desired) if workload.ordered else 0
    partition = f"; {kept} of them may keep an older revision (partition)" if kept else ""
    return holds(f"{new_and_ready(reading)}{partition}" if workload.desired else f"{ref}: 0 replicas desired")


def new_and_ready(reading: Reading) -> str:
    """How far it is: `2/3 pods of StatefulSet shop/db are new and Ready`."""
    ready = sum(pod.ready for pod in reading.newest)
    return f"{ready}/{reading.workload.desired} pods of {reading.workload.ref} are updated and Ready"


def stale_pods(reading: Reading) -> tuple[Pod, ...]:
    """The pods of an older revision that haven't been deleted: a StatefulSet's, and those that their controller doesn't
    replace (OnDelete); none for another workload.
    """
    workload = reading.workload
    return tuple(pod for pod in reading.others if not pod.deleting) if workload.ordered or workload.on_delete else ()


def not_observed(workload: Workload) -> str:
    """Why a workload's numbers are those of its previous spec."""
    return (
        "its controller has not observed the new spec yet "
        f"(generation {workload.generation}, observed {workload.observed_generation})"
    )


def not_replaced(workload: Workload, stale: Sequence[Pod]) -> str:
    """What is said of pods that are still to be replaced; "" when there are none."""
    if not stale:
        return ""
    by_whom = ", which another client must delete (strategy OnDelete)" if workload.on_delete else ""
    stuck = [] if workload.on_delete else [pod.name for pod in stale if not pod.ready]
    waits = f": the controller may be waiting for {first_few(stuck)} to become Ready first" if stuck else ""
    return f"not yet replaced: {first_few([pod.name for pod in stale])}{by_whom}{waits}"


def _others(reading: Reading, just_restarted: Callable[[Pod], str]) -> str:
    workload = reading.workload
    if reading.others:
        return f"{first_few([pod.name for pod in reading.others])} still terminates"
    if len(reading.newest) != workload.desired:
        return f"{len(reading.newest)} of {workload.desired} pods exist"
    for pod in reading.newest:
        if not pod.ready:
            return f"pod {pod.name} is not Ready"
        restarted = just_restarted(pod)
        if restarted:
            return restarted
    assert workload.ordered is not None
    seconds = workload.ordered.min_ready_seconds
    if seconds and workload.available < workload.desired:
        return f"only {workload.available} have been Ready for {seconds} s (minReadySeconds)"
    return ""


def replacing(workload: Workload, stale: Sequence[Pod]) -> str:
    """For a set whose controller waits for what will never be Ready, the documented way out is to delete the pod."""
    stuck = [pod.name for pod in stale if workload.on_delete or not pod.ready]
    return delete_pods(workload.ref, stuck) if stuck else describe_workload(workload.ref)
