"""Whether a workload's rollout is complete: only the newest revision runs, and all of it is Ready."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from upgrader.gates.stateful_rollout import judge_stateful_set, not_observed, not_replaced, replacing, stale_pods
from upgrader.gates.workload_reading import Reading
from upgrader.model.outcome import Verdict, holds, pending
from upgrader.model.workload import Container, Pod

__all__ = ["judge_rollout", "restarted_pods", "short_nodes", "without_nodes"]

_SETTLED = timedelta(seconds=10)
"""How long a container must run after a failure: without a probe it is "ready" between two crashes."""


def judge_rollout(reading: Reading, heard: Mapping[str, datetime], *, allow_none: bool = False) -> Verdict:
    """`holds` when the rollout is complete, else `pending` with what is missing; `allow_none` accepts no pods at all.

    The counts alone are not enough: they describe the previous spec until the controller has observed the new one.
    Nor is maxUnavailable allowed for: with it, nothing Ready on the only node counts as ready (helm#10845). So every
    count must be the desired one, and each pod is checked too. `heard` is when each node of `restarted_pods` was last
    heard of, by its own clock.
    """
    ref, desired = reading.workload.ref, reading.workload.desired
    if reading.workload.ordered is not None:
        return judge_stateful_set(reading, lambda pod: _just_restarted(pod, heard.get(pod.node)))
    missing = _missing(reading, heard, allow_none)
    if missing:
        return pending(f"{ref}: {missing}", remedy=replacing(reading.workload, stale_pods(reading)))
    complete = f"{desired} of {desired} pods updated, Ready and available"
    return holds(f"{ref}: {complete if desired else '0 pods desired'}")


def restarted_pods(reading: Reading) -> tuple[Pod, ...]:
    """The pods with a container that runs again after a failure: it matters for how long."""
    return tuple(pod for pod in reading.newest if any(map(_runs_again, pod.containers)))


def short_nodes(reading: Reading) -> frozenset[str]:
    """The nodes that have pods of it, but none of the newest revision that is Ready: it may want none there."""
    fine = {pod.node for pod in reading.newest if pod.ready}
    return frozenset(pod.node for pod in (*reading.newest, *reading.others, *reading.failed)) - fine


def without_nodes(reading: Reading, absent: Collection[str]) -> Reading:
    """A reading without the pods on these nodes, for nodes that are down whatever the step did.

    A DaemonSet's controller wants a pod there all the same; a Deployment's replaces it only minutes later. The reading
    as it is, if nothing remains of it.
    """
    workload = reading.workload
    lost = short_nodes(reading).intersection(absent)
    short = max(workload.desired - count for count in (workload.updated, workload.ready, workload.available))
    # No more than there are such nodes: what is missing elsewhere is still missing.
    gone = max(0, min(short, len(lost)))
    wanted = workload.desired - gone
    if wanted < 1:
        return reading
    return replace(
        reading,
        workload=replace(
            workload,
            desired=wanted,
            updated=min(workload.updated, wanted),
            ready=min(workload.ready, wanted),
            available=min(workload.available, wanted),
        ),
        newest=tuple(pod for pod in reading.newest if pod.node not in lost),
        others=tuple(pod for pod in reading.others if pod.node not in lost),
    )


def _missing(reading: Reading, heard: Mapping[str, datetime], allow_none: bool) -> str:
    """What keeps a rollout from being complete; "" when nothing does."""
    workload, desired = reading.workload, reading.workload.desired
    if not workload.observed:
        return not_observed(workload)
    if workload.trouble:
        return f"its pods can't be created: {workload.trouble}"
    if desired == 0:
        return "" if workload.ref.kind == "Deployment" or allow_none else "no node matches it"
    if stale := stale_pods(reading):
        return not_replaced(workload, stale)
    counts = {"updated": workload.updated, "Ready": workload.ready, "available": workload.available}
    short = [f"{count} {name}" for name, count in counts.items() if count != desired]
    if short:
        return f"of {desired} pods, {', '.join(short)}"
    if len(reading.newest) != desired:
        return f"{len(reading.newest)} of {desired} pods have the newest revision"
    for pod in reading.newest:
        if not pod.ready:
            return f"pod {pod.name} is not Ready"
        restarted = _just_restarted(pod, heard.get(pod.node))
        if restarted:
            return restarted
    if reading.others:
        names = ", ".join(pod.name for pod in reading.others)
        return f"{len(reading.others)} old pods are still terminating: {names}"
    return ""


def _just_restarted(pod: Pod, heard: datetime | None) -> str:
    """The kubelet writes both times, so that they are of one clock."""
    for item in filter(_runs_again, pod.containers):
        assert item.last is not None and item.running_since is not None
        if heard is None or heard - item.running_since < _SETTLED:
            return f"container {item.name} of pod {pod.name} has just restarted (exit code {item.last.exit_code})"
    return ""


def _runs_again(container: Container) -> bool:
    return container.running_since is not None and container.last is not None and container.last.error
