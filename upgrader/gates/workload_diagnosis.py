"""Finds out *why* a workload's newest pods aren't Ready, with the evidence, instead of "timed out"."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime
from functools import cache, partial

from upgrader.errors import ApiError
from upgrader.gates.api_absence import unanswered
from upgrader.gates.kubernetes_kinds import LEASES
from upgrader.gates.lasting_causes import lasting_cause
from upgrader.gates.node_health import HEARTBEATS
from upgrader.gates.pod_evidence import (
    causal_event,
    lines_of,
    log_tail,
    probe_container,
    warnings_of,
)
from upgrader.gates.pod_faults import Fault, Severity, worst_fault
from upgrader.gates.remedies import inspect_pod
from upgrader.gates.rollout import judge_rollout, restarted_pods, short_nodes, without_nodes
from upgrader.gates.stateful_rollout import new_and_ready, stale_pods
from upgrader.gates.workload_reading import Reading, read_workload
from upgrader.model.log_lines import headline, refuses_its_arguments
from upgrader.model.outcome import Verdict, VerdictKind, broken, pending
from upgrader.model.redaction.printable import mask_secrets
from upgrader.model.workload import Pod, WorkloadRef, parse_time
from upgrader.ports import Kube

__all__ = ["diagnose_reading", "diagnose_workload", "explain_pod", "missing"]

_SHOWN_LOG_LINES = 10
_LAST_LOG_LINES = 40
"""Among these is why a container ended; an error before them may have passed."""

_SINGLE_READS = 5
"""From how many nodes on one list is cheaper than a read of each."""


def diagnose_workload(
    kube: Kube,
    ref: WorkloadRef,
    *,
    allow_none: bool = False,
    absent: Callable[[Collection[str]], Collection[str]] = lambda _: (),
) -> Verdict:
    """Check a workload once: `holds`, or what is missing and why. An API that doesn't answer is `unknown`.

    `absent` names those of some nodes on which pods don't count; it is asked of the nodes where a pod isn't Ready.
    """
    try:
        reading = read_workload(kube, ref)
        return diagnose_reading(kube, reading, allow_none=allow_none, absent=absent) if reading else missing(ref)
    except ApiError as error:
        return unanswered(str(ref), error)


def missing(ref: WorkloadRef) -> Verdict:
    """What is said of a workload that doesn't exist."""
    see = f"kubectl -n {ref.namespace} get {ref.kind.lower()}s"
    return pending(f"{ref} does not exist", remedy=f"List the existing ones: {see}")


def diagnose_reading(
    kube: Kube,
    reading: Reading,
    *,
    allow_none: bool = False,
    absent: Callable[[Collection[str]], Collection[str]] = lambda _: (),
) -> Verdict:
    """The same of a workload that has been read. Raises ApiUnavailable or ApiError."""
    verdict = _judge(kube, reading, allow_none)
    if verdict.kind is VerdictKind.HOLDS or not reading.workload.observed:
        return verdict
    if nodes := absent(short_nodes(reading)):
        reading = without_nodes(reading, nodes)
        verdict = _judge(kube, reading, allow_none)
        if verdict.kind is VerdictKind.HOLDS:
            return verdict
    return _cause(kube, reading, verdict)


def _judge(kube: Kube, reading: Reading, allow_none: bool) -> Verdict:
    return judge_rollout(reading, _heard(kube, {pod.node for pod in restarted_pods(reading)}), allow_none=allow_none)


def _heard(kube: Kube, nodes: Collection[str]) -> dict[str, datetime]:
    """When each of these nodes was last heard of, by its own clock. Raises ApiError."""
    if len(nodes) > _SINGLE_READS:
        leases = [item for item in kube.list(LEASES, HEARTBEATS) if item["metadata"]["name"] in nodes]
    else:
        leases = [item for node in nodes if (item := kube.get(LEASES, node, HEARTBEATS)) is not None]
    times = {item["metadata"]["name"]: parse_time((item.get("spec") or {}).get("renewTime")) for item in leases}
    return {node: time for node, time in times.items() if time is not None}


def explain_pod(kube: Kube, subject: str, pod: Pod) -> Verdict | None:
    """Why one pod isn't Ready, as `pending` or `broken`; None when it is. Raises ApiUnavailable or ApiError."""
    fault = worst_fault([pod])
    return _explain(kube, None, subject, fault) if fault is not None else None


def _cause(kube: Kube, reading: Reading, verdict: Verdict) -> Verdict:
    """The fault behind an incomplete rollout, or the rollout's own verdict where there is none."""
    ref = reading.workload.ref
    fault = worst_fault(reading.newest)
    if fault is not None:
        subject = new_and_ready(reading) if reading.workload.ordered else str(ref)
        return _explain(kube, ref, subject, fault, reading.others)
    if reading.workload.desired > 0 and len(reading.newest) < reading.workload.desired:
        # The controller can't create the pods, or the nodes refuse them.
        refused = [f"pod {pod.name} was rejected by {pod.node}: {pod.message}" for pod in reading.failed[-1:]]
        events = warnings_of(kube, ref.namespace, reading.owner) if reading.owner else ()
        details = [*refused, *lines_of(events)]
        if details:
            # Pods that nobody has deleted yet have no fault: what was told of their set may be of long ago.
            why = f": {details[-1]}" if not stale_pods(reading) else ""
            return pending(f"{verdict.reason}{why}", *details, remedy=verdict.remedy)
    return verdict


def _explain(kube: Kube, ref: WorkloadRef | None, subject: str, fault: Fault, others: Collection[Pod] = ()) -> Verdict:
    """A fault as a verdict: the reason is one sentence with the cause, the details are the evidence.

    `others` are the workload's pods of older revisions.
    """
    pod, item = fault.pod, fault.container
    events = warnings_of(kube, pod.namespace, pod.uid)
    event_lines = tuple(lines_of(events))
    name = item.name if item is not None else ""
    if fault.severity is Severity.NOT_READY:
        # All containers run: the one whose probe fails is closer to the cause than the first in the spec.
        name = probe_container(events) or name
        item = next((c for c in pod.containers if c.name == name), item)
    started = item is not None and (item.terminated or item.last or item.running_since) is not None
    log_of = cache(partial(log_tail, kube, pod))
    log = log_of(item)[-_LAST_LOG_LINES:] if item is not None and started else ()
    # A log explains a container that ended; for one that runs, the probe's event explains more.
    cause = mask_secrets(fault.words) or (headline(log) if fault.severity >= Severity.FAILING else "")
    lasting = "" if fault.broken else lasting_cause(kube, pod, log_of, events, others)
    cause = lasting or cause or causal_event(events)
    where = f"container {name} of pod {pod.name}" if name else f"pod {pod.name}"
    on = f" on {pod.node}" if pod.node else ""
    reason = f"{subject}: {where}{on} {fault.what}{f': {cause}' if cause else ''}"
    details = (
        *((f"no checkpoint: {pod.no_checkpoint}",) if pod.no_checkpoint else ()),
        *(f"event: {line}" for line in event_lines),
        *(f"log of {name}: {line}" for line in log[-_SHOWN_LOG_LINES:]),
    )
    # A container that ended may succeed after a restart, but not with the same wrong arguments.
    certain = fault.broken or bool(lasting) or (fault.severity is Severity.FAILING and refuses_its_arguments(cause))
    verdict = (broken if certain else pending)(reason, *details, remedy=inspect_pod(ref, pod, item))
    return replace(verdict, failing=certain or fault.severity >= Severity.FAILING)
