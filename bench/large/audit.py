"""What the API server's audit log says of who asked for what."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import parse_qs, urlsplit

import yaml

from testkit.command import must
from testkit.lab_cluster import LabCluster

__all__ = ["AuditLog", "Request", "read_requests", "unpaged"]

_FOLDER = "/var/log/kubernetes-audit"
_POLICY = f"{_FOLDER}/policy.yaml"
_LOG = f"{_FOLDER}/audit.log"
_RULES = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata"}],
}
_OURS = ("upgrader", "Helm/", "kubectl/")
"""The beginnings of the user agents of what a run consists of."""


@dataclass(frozen=True)
class Request:
    """A request that the API server has answered."""

    verb: str
    resource: str
    uri: str
    agent: str
    user: str
    at: datetime
    """When the API server got it, by its clock."""

    @property
    def ours(self) -> bool:
        """Whether `upgrader` or what it starts sent it."""
        return self.agent.startswith(_OURS)

    @property
    def query(self) -> Mapping[str, list[str]]:
        """Its parameters."""
        return parse_qs(urlsplit(self.uri).query)


class AuditLog:
    """The audit log of a lab's only API server."""

    def __init__(self, cluster: LabCluster) -> None:
        self._cluster = cluster

    def begin(self) -> None:
        """Have every request logged from now on; replaces kube-apiserver once."""
        script = f"mkdir -p {_FOLDER} && cat > {_POLICY} <<'END'\n{yaml.safe_dump(_RULES)}END"
        self._cluster.on_controller("sh", "-c", script)
        self._cluster.change_values(
            "kube-apiserver",
            {
                "extraArgs": {"audit-policy-file": _POLICY, "audit-log-path": _LOG, "audit-log-maxsize": "2000"},
                "extraVolumes": [{"name": "audit", "hostPath": {"path": _FOLDER, "type": "Directory"}}],
                "extraVolumeMounts": [{"name": "audit", "mountPath": _FOLDER}],
            },
        )
        must(self._cluster.run(self._cluster.version))

    def mark(self) -> int:
        """Where the log ends now."""
        return int(self._cluster.on_controller("stat", "--format=%s", _LOG))

    def since(self, mark: int) -> list[Request]:
        """What was logged from there on."""
        return list(read_requests(self._cluster.on_controller("tail", "-c", f"+{mark + 1}", _LOG).splitlines()))


def read_requests(lines: Iterable[str]) -> Iterator[Request]:
    """The requests of a log, but for a last line that is being written."""
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        reference = event.get("objectRef") or {}
        yield Request(
            event["verb"],
            reference.get("resource", ""),
            event["requestURI"],
            event.get("userAgent", ""),
            (event.get("user") or {}).get("username", ""),
            datetime.fromisoformat(event["requestReceivedTimestamp"]),
        )


def unpaged(requests: Iterable[Request]) -> Counter[str]:
    """The lists of ours that asked for everything at once: whose and of what → how many."""
    return Counter(
        f"{request.agent.split('/')[0]}: {urlsplit(request.uri).path}"
        + ("?labelSelector" if "labelSelector" in request.query else "")
        for request in requests
        if request.ours and request.verb == "list" and "limit" not in request.query
    )
