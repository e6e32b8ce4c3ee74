"""What is wrong with a pod, judged from its status alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from upgrader.model.workload import Container, Pod, Termination

__all__ = ["Fault", "Severity", "container_fault", "pod_fault", "worst_fault"]

CRASHES_UNTIL_BROKEN = 2
"""Restarts after which a crash is no accident any more: the container has then failed three times."""

_WONT_START = frozenset({"CreateContainerConfigError", "InvalidImageName", "ErrImageNeverPull", "ImagePullBackOff"})
"""The kubelet would go on trying, but with the same input: a missing Secret, a name or an image that isn't there."""

_STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})


class Severity(IntEnum):
    """How much a finding says about the cause; higher is nearer to it."""

    NOT_READY = 1
    WAITS = 2
    FAILING = 3
    BROKEN = 4


@dataclass(frozen=True)
class Fault:
    """What keeps one pod from being Ready."""

    severity: Severity
    pod: Pod
    what: str
    """Follows the pod's name in a sentence: `exits with 1`, `is waiting: …`."""
    container: Container | None = None
    """The one at fault; None when it is the pod itself."""

    @property
    def broken(self) -> bool:
        """Whether waiting won't help."""
        return self.severity is Severity.BROKEN


def worst_fault(pods: Iterable[Pod]) -> Fault | None:
    """The fault that tells most among those of several pods; None when all are Ready."""
    faults = [fault for pod in pods if (fault := pod_fault(pod)) is not None]
    return max(faults, key=lambda fault: fault.severity, default=None)


def pod_fault(pod: Pod) -> Fault | None:
    """What keeps a pod from being Ready; None when it is Ready."""
    if pod.ready:
        return None
    if pod.unschedulable:
        return Fault(Severity.WAITS, pod, f"finds no node: {pod.unschedulable}")
    faults = [fault for item in pod.containers if (fault := container_fault(pod, item)) is not None]
    # The first of the worst: a container that only waits for its neighbour comes after it in severity.
    worst = max(faults, key=lambda fault: fault.severity, default=None)
    if worst is not None:
        return worst
    return Fault(Severity.NOT_READY, pod, f"is not Ready{f': {pod.message}' if pod.message else ''}")


def container_fault(pod: Pod, container: Container) -> Fault | None:
    """What is wrong with one container; None when it is ready, has done its work, or hasn't had its turn."""
    if container.ready:
        return None
    reason, message = container.waiting_reason, container.waiting_message
    if reason == "CrashLoopBackOff" and container.last is not None:
        # Only the kubelet's own back-off counts: after a power cut there are failed containers too, but no loop.
        again = container.restarts >= CRASHES_UNTIL_BROKEN
        times = f" (restarted {container.restarts} times)" if again else ""
        return Fault(
            Severity.BROKEN if again else Severity.FAILING, pod, f"{_ending(container.last)}{times}", container
        )
    if container.terminated is not None and (container.terminated.error or not container.init):
        return Fault(Severity.FAILING, pod, _ending(container.terminated), container)
    if reason in _WONT_START:
        return Fault(Severity.BROKEN, pod, _can_not_start(container, reason, message), container)
    if reason not in _STARTING:
        return Fault(Severity.FAILING, pod, _can_not_start(container, reason, message), container)
    if container.running_since is not None:
        last = f"; before, it {_past(container.last)}" if container.last else ""
        if container.init:
            return Fault(Severity.WAITS, pod, f"is still running, and the pod waits for it{last}", container)
        return Fault(Severity.NOT_READY, pod, f"is running but not ready{last}", container)
    if reason == "ContainerCreating":
        return Fault(Severity.NOT_READY, pod, "is being created", container)
    return None


def _ending(end: Termination) -> str:
    if end.reason == "OOMKilled":
        return "was killed: it used more memory than its limit (OOMKilled)"
    if end.reason in ("StartError", "ContainerCannotRun"):
        return f"can't be started: {end.message}"
    if end.signal:
        return f"was killed by signal {end.signal}"
    return f"exits with {end.exit_code}"


def _past(end: Termination) -> str:
    return _ending(end).replace("exits with", "exited with")


def _can_not_start(container: Container, reason: str, message: str) -> str:
    # The image is named because the kubelet's message sometimes only says "Back-off pulling image".
    named = f" {container.image}" if "Image" in reason and container.image not in message else ""
    return f"can't be started ({reason}{named}){f': {message}' if message else ''}"
