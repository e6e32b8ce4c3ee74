"""What the cluster recorded about a fault: Warning events and the last log lines, with secrets masked."""

from __future__ import annotations

import re
from collections.abc import Iterator

from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import EVENTS
from upgrader.model.workload import Container, Pod
from upgrader.ports import Kube, KubeObject
from upgrader.redaction.printable import mask_secrets

__all__ = [
    "headline",
    "lines_of",
    "log_tail",
    "probe_container",
    "readable",
    "refuses_its_arguments",
    "causal_event",
    "unreachable_backend",
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
_NO_CONNECTION = re.compile(r'failed to connect to \{Addr: "(?P<address>[^"]+)".*(?:desc = |Err: )"?(?P<why>[^"]+)')
"""How a gRPC client, as kube-apiserver is one of etcd, says that nothing answers at an address."""
_TIME = re.compile(r"^[IWEF]\d{4} (\d\d):(\d\d):(\d\d)")
_DAY_SECONDS = 86400
_PATIENT_SECONDS = 10
"""Longer than a local etcd takes to restart, and less than the 20 s after which kube-apiserver gives up and ends."""
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


def unreachable_backend(lines: tuple[str, ...]) -> str:
    """What a program could not connect to, from the first of these lines to the last; "" when it didn't try so long.

    By the times in its own log, as its node's clock may differ from ours.
    """
    failed = [(line, match) for line in lines if (match := _NO_CONNECTION.search(line))]
    if not failed:
        return ""
    first, last = _seconds(failed[0][0]), _seconds(failed[-1][0])
    if first is None or last is None or (last - first) % _DAY_SECONDS < _PATIENT_SECONDS:
        return ""
    match = failed[-1][1]
    return f"it can't connect to {match['address']}: {match['why'].strip()}"


def lines_of(events: tuple[KubeObject, ...]) -> Iterator[str]:
    """Events as lines; of those that differ only at the end (a port, a time), the newest."""
    lines = (event_line(event) for event in events)
    return iter({line[:_ALIKE_CHARACTERS]: line for line in lines}.values())


def _seconds(line: str) -> int | None:
    """The time of day of a line in klog's format."""
    found = _TIME.match(line)
    return int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3]) if found else None


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
