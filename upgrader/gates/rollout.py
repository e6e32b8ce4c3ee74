"""Whether a workload's rollout is complete: only the newest revision runs, and all of it is Ready."""

from __future__ import annotations

from datetime import datetime, timedelta

from upgrader.gates.remedies import describe_workload
from upgrader.gates.workload_reading import Reading
from upgrader.model.outcome import Verdict, holds, pending
from upgrader.model.workload import Pod

__all__ = ["judge_rollout"]

_SETTLED = timedelta(seconds=10)
"""How long a container must run after a failure: without a probe it is "ready" between two crashes."""


def judge_rollout(reading: Reading, now: datetime, *, allow_none: bool = False) -> Verdict:
    """`holds` when the rollout is complete, else `pending` with what is missing; `allow_none` accepts no pods at all.

    The counts alone are not enough: they describe the previous spec until the controller has observed the new one.
    Nor is maxUnavailable allowed for: with it, nothing Ready on the only node counts as ready (helm#10845). So every
    count must be the desired one, and each pod is checked too.
    """
    ref, desired = reading.workload.ref, reading.workload.desired
    missing = _missing(reading, now, allow_none)
    if missing:
        return pending(f"{ref}: {missing}", remedy=describe_workload(ref))
    complete = f"{desired} of {desired} pods updated, Ready and available"
    return holds(f"{ref}: {complete if desired else 'no pods wanted'}")


def _missing(reading: Reading, now: datetime, allow_none: bool) -> str:
    """What keeps a rollout from being complete; "" when nothing does."""
    workload, desired = reading.workload, reading.workload.desired
    if not workload.observed:
        return (
            "its controller has not observed the new spec yet "
            f"(generation {workload.generation}, observed {workload.observed_generation})"
        )
    if workload.trouble:
        return f"its pods can't be created: {workload.trouble}"
    if desired == 0:
        return "" if workload.ref.kind == "Deployment" or allow_none else "no node wants its pods"
    counts = {"updated": workload.updated, "Ready": workload.ready, "available": workload.available}
    short = [f"{count} {name}" for name, count in counts.items() if count != desired]
    if short:
        return f"of {desired} pods, {', '.join(short)}"
    if len(reading.newest) != desired:
        return f"{len(reading.newest)} pods of the newest revision, {desired} wanted"
    for pod in reading.newest:
        if not pod.ready:
            return f"pod {pod.name} is not Ready"
        restarted = _just_restarted(pod, now)
        if restarted:
            return restarted
    if reading.others:
        names = ", ".join(pod.name for pod in reading.others)
        return f"{len(reading.others)} old pods still terminate: {names}"
    return ""


def _just_restarted(pod: Pod, now: datetime) -> str:
    for item in pod.containers:
        if item.last is None or not item.last.error or item.running_since is None:
            continue
        # A node's clock that is ahead of this machine's gives a negative age, which means nothing.
        if timedelta(0) <= now - item.running_since < _SETTLED:
            return f"container {item.name} of pod {pod.name} was restarted just now (exit {item.last.exit_code})"
    return ""
