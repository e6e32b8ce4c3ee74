"""Stops pods on this host by their UIDs, through the container runtime: the only way without an API."""

from __future__ import annotations

import json
import sys
from typing import Any

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.facts import container_facts
from upgrader.onhost.node.cri import Runtime

_UID = "io.kubernetes.pod.uid"
_STOP_SECONDS = 30.0
"""Deadline of one call: a busy machine needs a while to stop a pod's processes and remove its network."""


def stop(runtime: Runtime, uids: set[str]) -> list[str]:
    """Stop the sandboxes of these pods, with everything in them; returns the pods' names. The kubelet restarts such a
    pod until an API server reports its deletion.
    """
    stopped = []
    for pod in runtime.sandboxes():
        if pod.ready and pod.labels.get(_UID) in uids:
            runtime.stop(pod.id)
            stopped.append(pod.name)
    return stopped


def main(*uids: str) -> None:
    """Stop them; prints the names of the pods that were stopped as JSON, or why it failed."""
    root = ""
    answer: dict[str, Any] = {}
    try:
        answer["stopped"] = stop(container_facts.runtime(container_facts.socket_path(root), _STOP_SECONDS), set(uids))
    except (Failed, ValueError) as error:
        answer["failed"] = f"pods could not be stopped: {error}"
    sys.stdout.write(json.dumps(answer) + "\n")
