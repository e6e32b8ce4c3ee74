"""Somebody who keeps the copies that bring a control plane back."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.model.workload import CHECKPOINT_OF, Pod, Workload
from upgrader.preflight.context import DAEMONSETS, PODS, SYSTEM, PreflightContext

__all__ = ["check_checkpointer"]

_NAME = "pod-checkpointer"


def check_checkpointer(context: PreflightContext) -> Iterator[Finding]:
    """On each controller a pod-checkpointer is at work, or the run brings one.

    That it runs is enough: it isn't Ready while some pod has no current copy, and mending that pod may be what the run
    is for. The gates behind the first change ask for more.
    """
    if _NAME in context.changing:
        return
    found = context.kube.get(DAEMONSETS, _NAME, SYSTEM)
    if found is None:
        yield Finding(
            "checkpointer.missing",
            "error" if _NAME in context.observed.releases else "warning",
            f"there is no DaemonSet {SYSTEM}/{_NAME}",
            "Nobody keeps copies of the control plane's pods: after a power cut it would not come back by itself.",
            f"Have release {_NAME} in the pipeline; if Helm takes it for installed: helm uninstall {_NAME}, then run.",
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
            "A new kube-apiserver would get no copy there, and the old copy might not be started.",
            f"kubectl -n {SYSTEM} describe daemonset {_NAME}",
        )
