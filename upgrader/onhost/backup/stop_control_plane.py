"""Stops the control plane on this host through the container runtime, while the kubelet can't restart it."""

from __future__ import annotations

import json
import sys

from upgrader.contract.checkpoints import CHECKPOINT_OF
from upgrader.onhost.common.questions import Failed
from upgrader.onhost.facts import container_facts
from upgrader.onhost.node.cri import Runtime, Sandbox

_PODS = ("pod-checkpointer", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd-")
"""In the order in which they are stopped: clients before the servers that they write to."""

_SECONDS = 60.0
"""Deadline of one call."""


def main() -> None:
    """Stop it; prints the names of the pods that were stopped as JSON, or why it failed."""
    try:
        runtime = container_facts.runtime(container_facts.socket_path(""), _SECONDS)
        answer: dict[str, object] = {"stopped": stop(runtime)}
        if left := [pod.name for pod in runtime.sandboxes() if _rank(pod) is not None]:
            answer = {"failed": "still running: " + ", ".join(left)}
    except (Failed, ValueError) as error:
        answer = {"failed": str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")


def stop(runtime: Runtime) -> list[str]:
    """Stop the pods; returns their names."""
    ranked = [(rank, pod) for pod in runtime.sandboxes() if (rank := _rank(pod)) is not None]
    for _, pod in sorted(ranked, key=lambda item: item[0]):
        runtime.stop(pod.id)
    return [pod.name for _, pod in ranked]


def _rank(pod: Sandbox) -> int | None:
    """When it is stopped; None if it doesn't run, or isn't part of the control plane."""
    if not pod.ready or pod.namespace != "kube-system":
        return None
    if CHECKPOINT_OF in pod.labels:
        return 0
    return next((rank for rank, prefix in enumerate(_PODS) if pod.name.startswith(prefix)), None)
