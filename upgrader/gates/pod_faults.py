"""What is wrong with a pod, judged from its status alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from upgrader.model.workload import Container, Pod, Termination

__all__ = ["UNSEEN", "Fault", "Severity", "container_fault", "pod_fault", "worst_fault"]

UNSEEN = "has not been seen by any scheduler"
"""Said of a pod that has neither a node nor a reason why it gets none."""

CRASHES_UNTIL_BROKEN = 2
"""Restarts after which a crash counts as a loop: the container has then failed three times."""

_WONT_START = frozenset({"CreateContainerConfigError", "InvalidImageName", "ErrImageNeverPull", "ImagePullBackOff"})
"""The kubelet retries, but with the same input: a missing Secret, an invalid name, an image that doesn't exist."""

_NOT_READ_YET = "services have not yet been read"
"""What a starting kubelet reports for every container, until it has read the Services."""

_STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})

_LOST = frozenset({"Unknown", "ContainerStatusUnknown"})
"""Reasons of a container whose end the kubelet did not see: its node went down, or lost it."""

_FORGIVEN_SECONDS = 600.0
"""As for the kubelet, which resets its back-off once a container has run for ten minutes."""


class Severity(IntEnum):
    """How close a finding is to the cause; higher is closer."""

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
    """Follows the name in a sentence: `exits with 1`, `finds no node`."""
    words: str = ""
    """The cluster's own explanation, where the status has one."""
    container: Container | None = None
    """The one at fault; None when it is the pod itself."""

    @property
    def broken(self) -> bool:
        """Whether waiting won't help."""
        return self.severity is Severity.BROKEN


def worst_fault(pods: Iterable[Pod]) -> Fault | None:
    """The fault closest to the cause among those of several pods; None when all are Ready."""
    faults = [fault for pod in pods if (fault := pod_fault(pod)) is not None]
    return max(faults, key=lambda fault: fault.severity, default=None)


def pod_fault(pod: Pod) -> Fault | None:
    """What keeps a pod from being Ready; None when it is Ready."""
    if pod.ready:
        return None
    if pod.unschedulable:
        return Fault(Severity.WAITS, pod, "finds no node", pod.unschedulable)
    if pod.awaited_scheduler:
        words = (
            f"no running scheduler has the name {pod.awaited_scheduler} (profiles[].schedulerName in the file of "
            "kube-scheduler's --config)"
        )
        return Fault(Severity.WAITS, pod, UNSEEN, words)
    faults = [fault for item in pod.containers if (fault := container_fault(pod, item)) is not None]
    # The first of the worst: a container that only waits for another one is less severe than that one.
    worst = max(faults, key=lambda fault: fault.severity, default=None)
    return worst or Fault(Severity.NOT_READY, pod, "is not Ready", pod.message)


def container_fault(pod: Pod, container: Container) -> Fault | None:
    """What is wrong with one container; None when it is ready, has completed, or waits for its turn."""
    if container.ready:
        return None

    def fault(severity: Severity, what: str, words: str = "") -> Fault:
        return Fault(severity, pod, what, words, container)

    reason = container.waiting_reason
    end = container.last if reason == "CrashLoopBackOff" else container.terminated
    if end is not None and (end.error or not container.init):
        what, words = _ending(end)
        if _loops(container, end):
            return fault(Severity.BROKEN, f"{what} (restarted {container.restarts} times)", words)
        return fault(Severity.FAILING, what, words)
    if reason in _WONT_START and _NOT_READ_YET not in container.waiting_message:
        return fault(Severity.BROKEN, *_no_start(container))
    if reason not in _STARTING:
        again = reason == "RunContainerError" and container.restarts >= CRASHES_UNTIL_BROKEN
        return fault(Severity.BROKEN if again else Severity.FAILING, *_no_start(container))
    if container.running_since is not None:
        before = f" (before, it {_ending(container.last)[0].replace('exits', 'exited')})" if container.last else ""
        if container.init:
            return fault(Severity.WAITS, f"is an init container that is still running{before}")
        return fault(Severity.NOT_READY, f"is running but not ready{before}")
    return fault(Severity.NOT_READY, "is being created") if reason == "ContainerCreating" else None


def _loops(container: Container, end: Termination) -> bool:
    """Whether a container ends repeatedly, soon after its start.

    The kubelet reports "terminated" for most of its back-off, so CrashLoopBackOff can't be waited for. A power cut or
    a reboot gives the same status, even the restart count; but the former has reason `Unknown`, and before the latter
    the container ran for long.
    """
    if container.restarts < CRASHES_UNTIL_BROKEN or end.reason in _LOST:
        return False
    return end.lasted_seconds is None or end.lasted_seconds < _FORGIVEN_SECONDS


def _ending(end: Termination) -> tuple[str, str]:
    """What happened, and the runtime's own explanation where the runtime failed."""
    if end.reason in _LOST:
        return "was lost", "its node went down, or the runtime lost the container"
    if end.reason == "OOMKilled":
        return "was killed for using more memory than its limit (OOMKilled)", ""
    if end.reason in ("StartError", "ContainerCannotRun"):
        return f"can't be started ({end.reason})", end.message
    if end.signal:
        return f"was killed by signal {end.signal}", ""
    return f"exits with {end.exit_code}", ""


def _no_start(container: Container) -> tuple[str, str]:
    reason, message = container.waiting_reason, container.waiting_message
    if "Image" not in reason:
        return f"can't be started ({reason})", message
    # Older kubelets only report 'Back-off pulling image "x"' here; an event has the cause.
    words = "" if message.startswith("Back-off") and ": " not in message else message
    return f"can't pull its image {container.image} ({reason})", words
