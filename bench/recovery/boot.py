"""What a controller did between being switched on and its API answering, by its own logs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

__all__ = ["MILESTONES", "Line", "milestones", "parse", "script"]


@dataclass(frozen=True)
class Line:
    """A log line. `source`: `kubelet`, or WORKLOAD/CONTAINER. `at`: seconds since the epoch."""

    source: str
    at: float
    text: str


MILESTONES: tuple[tuple[str, str, str], ...] = (
    # what is shown, source, pattern of the line; the first line that matches counts.
    ("kubelet starts", "kubelet", r"Kubelet version|Started kubelet|kubelet: the Kubernetes node agent"),
    ("etcd's container runs", "etcd/etcd", r""),
    ("etcd serves", "etcd/etcd", r"ready to serve client requests"),
    ("the checkpointer's standby pod runs", "pod-checkpointer-checkpoint/checkpointer", r""),
    (
        "it activates kube-apiserver's standby pod",
        "pod-checkpointer-checkpoint/checkpointer",
        r"standby pod put in place",
    ),
    ("the standby pod's first container runs", "kube-apiserver-checkpoint/address", r""),
    ("its kube-apiserver runs", "kube-apiserver-checkpoint/kube-apiserver", r""),
    ("…and serves", "kube-apiserver-checkpoint/kube-apiserver", r"Serving securely"),
    ("its HAProxy listens for clients", "kube-apiserver-checkpoint/haproxy", r"ready: listening for clients"),
)


def script(since: float) -> str:
    """A shell script that prints the logs since then, as `parse` wants them; `since` is seconds since the epoch."""
    return f"""
journalctl -q -u kubelet --since=@{int(since)} -o short-unix | sed 's/^/kubelet journal /'
find /var/log/pods -name '*.log' -newermt @{int(since)} | while read -r file; do
  sed "s|^|$file |" "$file"
done
"""


def parse(printed: str, since: float) -> list[Line]:
    """The lines of `script`'s output after `since`, oldest first."""
    found = []
    for text in printed.splitlines():
        source, _, rest = text.partition(" ")
        if source == "kubelet":
            stamp, _, message = rest.removeprefix("journal ").partition(" ")
            at = float(stamp) if re.fullmatch(r"\d+\.\d+", stamp) else 0.0
        elif source.startswith("/"):
            stamp, _, message = rest.partition(" ")
            source, at = _container_of(source), _time(stamp)
        else:
            continue
        if at >= since:
            found.append(Line(source, at, message))
    return sorted(found, key=lambda line: line.at)


def milestones(lines: Iterable[Line], since: float) -> Mapping[str, float]:
    """Milestone → seconds after `since`; without those that were not reached."""
    met: dict[str, float] = {}
    for line in lines:
        for name, source, pattern in MILESTONES:
            if name not in met and line.source == source and re.search(pattern, line.text):
                met[name] = line.at - since
    return {name: met[name] for name, _, _ in MILESTONES if name in met}


def _container_of(file: str) -> str:
    """WORKLOAD/CONTAINER of `/var/log/pods/NAMESPACE_POD_UID/CONTAINER/N.log`; static pods end in the node's name."""
    pod, container = file.split("/")[-3:-1]
    return re.sub(r"-controller-\d+$", "", pod.split("_")[1]) + "/" + container


def _time(stamp: str) -> float:
    """RFC 3339 with nanoseconds, as the container runtime writes it; 0 for anything else."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)", stamp)
    if not match:
        return 0.0
    whole, fraction, zone = match.groups()
    return datetime.fromisoformat(whole + zone).timestamp() + float(f"0.{fraction or 0}")
