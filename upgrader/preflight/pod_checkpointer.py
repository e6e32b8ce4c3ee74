"""The pod-checkpointer, which restores a control plane, runs on every controller."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.gates.checkpoint_gate import CheckpointGate
from upgrader.gates.workload_diagnosis import diagnose_workload
from upgrader.model.components import COMPONENTS
from upgrader.model.finding import Finding
from upgrader.model.outcome import VerdictKind
from upgrader.model.workload import CHECKPOINT_OF, Pod, Workload, WorkloadRef
from upgrader.preflight.context import DAEMONSETS, PODS, SYSTEM, PreflightContext

__all__ = ["check_checkpointer"]

_NAME = "pod-checkpointer"


def check_checkpointer(context: PreflightContext) -> Iterator[Finding]:
    """Each controller runs a pod-checkpointer, or the run installs it.

    The gates after the first change need it Ready, and it isn't while some pod has no current checkpoint. That is an
    error unless the control plane itself isn't healthy, as the run may fix that pod.
    """
    if any(release.name == _NAME for release in context.changing):
        return
    found = context.kube.get(DAEMONSETS, _NAME, SYSTEM)
    if found is None:
        yield Finding(
            "checkpointer.missing",
            "error" if _NAME in context.observed.releases else "warning",
            f"there is no DaemonSet {SYSTEM}/{_NAME}",
            "Control-plane pods have no checkpoints: after a power cut, the control plane would not recover by itself.",
            f"Check that the API serves it: kubectl get --raw /apis/apps/v1. If it does, add release {_NAME} to the "
            f"pipeline; if Helm lists it as installed, restore what was removed: helm -n {SYSTEM} rollback {_NAME} "
            f"REVISION (helm -n {SYSTEM} history {_NAME} lists them)",
        )
        return
    pods = [
        Pod.parse(item) for item in context.kube.list(PODS, SYSTEM, labels=Workload.parse("DaemonSet", found).selector)
    ]
    pods += [Pod.parse(item) for item in context.kube.list(PODS, SYSTEM, labels=f"{CHECKPOINT_OF}={_NAME}")]
    at_work = {pod.node for pod in pods if any(item.running_since for item in pod.containers)}
    without = [host.name for host in context.cluster.controllers if host.name not in at_work]
    if without:
        yield Finding(
            "checkpointer.down",
            "error",
            f"no pod-checkpointer runs on {', '.join(without)}",
            "A new kube-apiserver would get no checkpoint there, and nothing would restore the old one.",
            f"kubectl -n {SYSTEM} describe daemonset {_NAME}",
        )
        return
    verdict = CheckpointGate(context.kube, context.cluster, WorkloadRef("DaemonSet", SYSTEM, _NAME)).check()
    if verdict.kind is not VerdictKind.HOLDS:
        complete = all(_is_complete(context, component) for component in COMPONENTS)
        yield Finding(
            "checkpointer.not-ready",
            "error" if complete else "warning",
            f"{_NAME} is not Ready",
            "\n".join(verdict.lines()),
            verdict.remedy
            if complete
            else f"Once the control plane is healthy again, the run's gates require that {_NAME} is Ready.",
        )


def _is_complete(context: PreflightContext, component: str) -> bool:
    """Whether a part of the control plane has nothing that the run could fix."""
    ref = WorkloadRef("Deployment", SYSTEM, component)
    return diagnose_workload(context.kube, ref).kind is VerdictKind.HOLDS
