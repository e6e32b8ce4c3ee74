"""Waits on this host until a static pod runs, or one of its containers has failed. Needs no API."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.facts import container_facts
from upgrader.onhost.node.cri import ContainerStatus, Runtime, Sandbox

_POLL_SECONDS = 0.25
_LOG_BYTES = 65536


def main(pod: str, last: str, seconds: str) -> None:
    """Wait for the container `last` of a pod; prints its containers' logs as JSON, or why it failed."""
    sys.stdout.write(json.dumps(wait(_runtime(), pod, last, float(seconds))) + "\n")


def wait(runtime: Runtime, pod: str, last: str, seconds: float) -> dict[str, Any]:
    """`logs`: container → its log; or `failed`."""
    until, seen = time.monotonic() + seconds, "the kubelet has not started it"
    while time.monotonic() < until:
        try:
            found = [each for each in runtime.sandboxes() if _is(each, pod)]
            statuses = [runtime.status(container.id) for each in found for container in each.containers]
        except (Failed, ValueError) as error:
            seen = f"the container runtime does not answer: {error}"
            statuses = []
        logs = {status.name: _log(status.log) for status in statuses}
        for status in statuses:
            if status.state == "exited" and (status.exit_code or status.name == last):
                if status.exit_code == 0:
                    return {"logs": logs}
                return {"failed": _why(status, logs.get(status.name, ""))}
            if status.name == last and status.state == "running":
                return {"logs": logs}
            seen = f"its container {status.name} is {status.state}"
        time.sleep(_POLL_SECONDS)
    return {"failed": f"pod {pod} was not Ready within {seconds:.0f} s: {seen}"}


def gone(runtime: Runtime, prefix: str, seconds: float) -> bool:
    """Whether no pod with such a name runs any more, within that time."""
    until = time.monotonic() + seconds
    while True:
        if not any(each.ready and each.name.startswith(prefix) for each in runtime.sandboxes()):
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(_POLL_SECONDS)


def _runtime() -> Runtime:
    return container_facts.runtime(container_facts.socket_path(""))


def _is(sandbox: Sandbox, pod: str) -> bool:
    """A static pod's name ends with its node's."""
    return sandbox.namespace == "kube-system" and sandbox.from_file and sandbox.name.startswith(pod + "-")


def _why(status: ContainerStatus, log: str) -> str:
    words = (log.strip() or status.message.strip() or status.reason)[-1000:]
    return f"container {status.name} failed with exit code {status.exit_code}: {words}"


def _log(path: str) -> str:
    """The last lines of a container's log, both streams."""
    return "\n".join(container_facts.logged(path, _LOG_BYTES))
