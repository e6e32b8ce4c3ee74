"""Queries etcd from a controller, as the new kube-apiserver there will."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from upgrader.model.cluster import Host
from upgrader.model.etcd_client import EtcdClient
from upgrader.onhost.sending.sent_program import SentProgram
from upgrader.ports import Hosts

__all__ = ["ask_etcd"]

_SECONDS = 25.0
_ETCD = SentProgram(
    "planned_etcd", "facts", "etcd", "Run the command again. If it fails again, report this message as a bug."
)


def ask_etcd(hosts: Hosts, host: Host, client: EtcdClient) -> Mapping[str, str] | None:
    """Each server, and why it isn't a healthy etcd ("": it is); None if the client's files aren't on the host.

    Raises HostUnreachable or HostError.
    """
    given = {"servers": client.servers, "ca": client.ca, "certificate": client.certificate, "key": client.key}

    def decode(found: dict[str, Any]) -> Mapping[str, str] | None:
        return None if found["missing"] else {url: _why(found["answers"][url]) for url in client.servers}

    return _ETCD.read(hosts, host, decode, json.dumps(given), seconds=_SECONDS)


def _why(answer: object) -> str:
    return str(answer["unknown"]) if isinstance(answer, dict) else str(answer)
