"""Finds out *why* a workload's newest pods aren't Ready, with the evidence, instead of "timed out"."""

from __future__ import annotations

from datetime import datetime

from upgrader.errors import ApiError
from upgrader.gates.api_absence import unanswered
from upgrader.gates.pod_evidence import (
    causal_event,
    headline,
    lines_of,
    log_tail,
    probe_container,
    refuses_its_arguments,
    warnings_of,
)
from upgrader.gates.pod_faults import Fault, Severity, worst_fault
from upgrader.gates.remedies import inspect_pod
from upgrader.gates.rollout import judge_rollout
from upgrader.gates.secret_mask import mask_secrets
from upgrader.gates.workload_reading import Reading, read_workload
from upgrader.model.outcome import Verdict, VerdictKind, broken, pending
from upgrader.model.workload import Pod, WorkloadRef
from upgrader.ports import Kube

__all__ = ["diagnose_workload", "explain_pod"]

_SHOWN_LOG_LINES = 10


def diagnose_workload(kube: Kube, ref: WorkloadRef, now: datetime, *, allow_none: bool = False) -> Verdict:
    """Check a workload once: `holds`, or what is missing and why. An API that doesn't answer is `unknown`."""
    try:
        reading = read_workload(kube, ref)
        if reading is None:
            see = f"kubectl -n {ref.namespace} get {ref.kind.lower()}s"
            return pending(f"{ref} does not exist", remedy=f"Check what is there: {see}")
        verdict = judge_rollout(reading, now, allow_none=allow_none)
        if verdict.kind is VerdictKind.HOLDS or not reading.workload.observed:
            return verdict
        return _cause(kube, reading, verdict)
    except ApiError as error:
        return unanswered(str(ref), error)


def explain_pod(kube: Kube, subject: str, pod: Pod) -> Verdict | None:
    """Why one pod isn't Ready, as `pending` or `broken`; None when it is. Raises ApiUnavailable or ApiError."""
    fault = worst_fault([pod])
    return _explain(kube, subject, fault) if fault is not None else None


def _cause(kube: Kube, reading: Reading, verdict: Verdict) -> Verdict:
    """The fault behind an incomplete rollout, or the rollout's own verdict where there is none."""
    ref = reading.workload.ref
    fault = worst_fault(reading.newest)
    if fault is not None:
        return _explain(kube, str(ref), fault)
    if reading.workload.desired > 0 and len(reading.newest) < reading.workload.desired:
        # The controller can't create the pods, or the nodes refuse them.
        refused = [f"pod {pod.name} was refused by {pod.node}: {pod.message}" for pod in reading.failed[-1:]]
        events = warnings_of(kube, ref.namespace, reading.owner) if reading.owner else ()
        details = [*refused, *lines_of(events)]
        if details:
            return pending(f"{verdict.reason}: {details[-1]}", *details, remedy=verdict.remedy)
    return verdict


def _explain(kube: Kube, subject: str, fault: Fault) -> Verdict:
    """A fault as a verdict: the reason is one sentence with the cause, the details are the evidence."""
    pod, item = fault.pod, fault.container
    events = warnings_of(kube, pod.namespace, pod.uid)
    event_lines = tuple(lines_of(events))
    name = item.name if item is not None else ""
    if fault.severity is Severity.NOT_READY:
        # All containers run: the one whose probe fails is closer to the cause than the first in the spec.
        name = probe_container(events) or name
        item = next((c for c in pod.containers if c.name == name), item)
    started = item is not None and (item.terminated or item.last or item.running_since) is not None
    log = log_tail(kube, pod, item) if item is not None and started else ()
    # A log explains a container that ended; for one that runs, the probe's event explains more.
    cause = mask_secrets(fault.words) or (headline(log) if fault.severity >= Severity.FAILING else "")
    cause = cause or causal_event(events)
    where = f"container {name} of pod {pod.name}" if name else f"pod {pod.name}"
    on = f" on {pod.node}" if pod.node else ""
    reason = f"{subject}: {where}{on} {fault.what}{f': {cause}' if cause else ''}"
    details = (
        *(f"event: {line}" for line in event_lines),
        *(f"log of {name}: {line}" for line in log[-_SHOWN_LOG_LINES:]),
    )
    # A container that ended may succeed after a restart, but not with the same wrong arguments.
    certain = fault.broken or (fault.severity is Severity.FAILING and refuses_its_arguments(cause))
    return (broken if certain else pending)(reason, *details, remedy=inspect_pod(pod, item))
