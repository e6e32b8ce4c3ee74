"""What the cluster recorded about a fault: Warning events and the last log lines, with secrets masked."""

from __future__ import annotations

import re
from collections.abc import Iterator

from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import EVENTS
from upgrader.model.log_lines import readable
from upgrader.model.redaction.printable import mask_secrets
from upgrader.model.workload import Container, Pod
from upgrader.ports import Kube, KubeObject

__all__ = [
    "lines_of",
    "log_tail",
    "probe_container",
    "causal_event",
    "warnings_of",
]

_LOG_LINES = 300
"""A kube-apiserver that can't read etcd logs several lines for each try, about every second, for each resource."""
_EVENTS = 6
_ALIKE_CHARACTERS = 60

_PROBED = re.compile(r"\{(.+)\}")
_COMMAND = re.compile(r'(command timed out: "[^\n]{1,40}?)(?:\s\\"|\\n)[^\n]*(" timed out after)')
"""The kubelet quotes the whole command of a probe that timed out, with any program in its arguments."""


def warnings_of(kube: Kube, namespace: str, uid: str) -> tuple[KubeObject, ...]:
    """The newest Warning events about one object, oldest first. Raises ApiUnavailable or ApiError."""
    found = kube.list(EVENTS, namespace, fields=f"involvedObject.uid={uid},type=Warning")
    return tuple(sorted(found, key=_when)[-_EVENTS:])


def event_line(event: KubeObject) -> str:
    """One event as one line: `FailedMount: MountVolume.SetUp failed for volume …`."""
    message = _COMMAND.sub(r"\1 …\2", " ".join(mask_secrets(event.get("message", "")).split()))
    return f"{event.get('reason', '')}: {message}"


def causal_event(events: tuple[KubeObject, ...]) -> str:
    """The newest event that names a cause, as a line; "" when there is none ("backing off" is no cause)."""
    causes = [event for event in events if event.get("reason") != "BackOff"]
    return event_line(causes[-1]) if causes else ""


def probe_container(events: tuple[KubeObject, ...]) -> str:
    """The container whose probe failed last; "" when no probe did."""
    for event in reversed(events):
        match = _PROBED.search((event.get("involvedObject") or {}).get("fieldPath", ""))
        if event.get("reason") == "Unhealthy" and match:
            return match[1]
    return ""


def log_tail(kube: Kube, pod: Pod, container: Container) -> tuple[str, ...]:
    """The last log lines of a container: of its previous instance if that failed and the present one runs.

    Empty when there are none. A log that can't be read is one line that says so, as that must not hide the fault.
    """
    previous = container.running_since is not None and container.last is not None and container.last.error
    try:
        text = kube.logs(pod.namespace, pod.name, container.name, previous=previous, lines=_LOG_LINES)
        if not text and previous:
            text = kube.logs(pod.namespace, pod.name, container.name, lines=_LOG_LINES)
    except ApiError as error:
        return (f"(the log can't be read: {error.message})",)
    if not text:
        end = container.terminated or container.last
        text = end.message if end else ""
    return readable(text)


def lines_of(events: tuple[KubeObject, ...]) -> Iterator[str]:
    """Events as lines; of those that differ only at the end (a port, a time), the newest."""
    lines = (event_line(event) for event in events)
    return iter({line[:_ALIKE_CHARACTERS]: line for line in lines}.values())


def _when(event: KubeObject) -> str:
    """RFC 3339 in UTC sorts as text."""
    series = event.get("series") or {}
    return str(
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )
