"""The pod-checkpointer, which restores a control plane, runs on every controller."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.model.workload import CHECKPOINT_OF, Pod, Workload
from upgrader.preflight.context import DAEMONSETS, PODS, SYSTEM, PreflightContext

__all__ = ["check_checkpointer"]

_NAME = "pod-checkpointer"


def check_checkpointer(context: PreflightContext) -> Iterator[Finding]:
    """Each controller runs a pod-checkpointer, or the run installs it.

    It need not be Ready: it isn't while some pod has no current checkpoint, and the run may be meant to fix that pod.
    The gates after the first change require more.
    """
    if _NAME in context.changing:
        return
    found = context.kube.get(DAEMONSETS, _NAME, SYSTEM)
    if found is None:
        yield Finding(
            "checkpointer.missing",
            "error" if _NAME in context.observed.releases else "warning",
            f"there is no DaemonSet {SYSTEM}/{_NAME}",
            "The control plane's pods have no checkpoints: after a power cut it would not recover by itself.",
            f"Add release {_NAME} to the pipeline; if Helm lists it as installed: helm uninstall {_NAME}, then run.",
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
            "A new kube-apiserver would get no checkpoint there, and the old one might not be started.",
            f"kubectl -n {SYSTEM} describe daemonset {_NAME}",
        )
