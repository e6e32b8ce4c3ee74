"""What the cluster recorded about a fault: Warning events and the last log lines, with secrets masked."""

from __future__ import annotations

import re
from collections.abc import Iterator

from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import EVENTS
from upgrader.gates.secret_mask import mask_secrets
from upgrader.model.workload import Container, Pod
from upgrader.ports import Kube, KubeObject

__all__ = [
    "headline",
    "lines_of",
    "log_tail",
    "probe_container",
    "readable",
    "refuses_its_arguments",
    "causal_event",
    "warnings_of",
]

_LOG_LINES = 40
_EVENTS = 6
_ALIKE_CHARACTERS = 60

_KLOG = re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+\s+\d+ [^\]]+\] ")
_CAUSE = re.compile(r"^(?:Error:|[Ff]atal|FATAL|panic:|[EF]\d{4} |.*\b(?:level=(?:error|fatal)|\[ALERT\]))")
_USAGE = re.compile(r"^\s+(?:-\w, +)?--[\w-]+\s|^(?:Usage|\w[\w ]*flags):$")
"""Help for flags: some components print hundreds of lines of it before they name the wrong flag."""
_REFUSAL = re.compile(
    r"^(?:Error: )?(?:unknown (?:shorthand )?flag:|invalid argument .* for .* flag:|flag needs an argument:|"
    r"flag provided but not defined:)|: error: (?:unrecognized arguments:|argument )"
)
"""How Go's and Python's argument parsers refuse a command line."""
_PROBED = re.compile(r"\{(.+)\}")


def warnings_of(kube: Kube, namespace: str, uid: str) -> tuple[KubeObject, ...]:
    """The newest Warning events about one object, oldest first. Raises ApiUnavailable or ApiError."""
    found = kube.list(EVENTS, namespace, fields=f"involvedObject.uid={uid},type=Warning")
    return tuple(sorted(found, key=_when)[-_EVENTS:])


def event_line(event: KubeObject) -> str:
    """One event as one line: `FailedMount: MountVolume.SetUp failed for volume …`."""
    message = " ".join(mask_secrets(event.get("message", "")).split())
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


def readable(text: str) -> tuple[str, ...]:
    """The lines of a log, without blank ones and help for flags, and with secrets masked."""
    return tuple(line.rstrip() for line in mask_secrets(text).splitlines() if line.strip() and not _USAGE.search(line))


def headline(lines: tuple[str, ...]) -> str:
    """The line of a log that most likely names the cause: the last error, or else the last line."""
    for line in reversed(lines):
        if _CAUSE.search(line):
            return _KLOG.sub("", line)
    return _KLOG.sub("", lines[-1]) if lines else ""


def refuses_its_arguments(line: str) -> bool:
    """Whether a program refuses its command line here: every restart will fail in the same way."""
    return _REFUSAL.search(line) is not None


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
