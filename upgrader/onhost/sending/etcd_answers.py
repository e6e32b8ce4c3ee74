"""Asks etcd from a controller, as the kube-apiserver that is to run there will."""

from __future__ import annotations

import json
from collections.abc import Mapping

from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.model.etcd_client import EtcdClient
from upgrader.onhost.sending.shipped_program import program
from upgrader.ports import Hosts

__all__ = ["ask_etcd"]

_SECONDS = 25.0


def ask_etcd(hosts: Hosts, host: Host, client: EtcdClient) -> Mapping[str, str] | None:
    """Each server, and why it isn't a healthy etcd ("": it is); None where the client's files aren't on the host.

    Raises HostUnreachable or HostError.
    """
    given = {"servers": client.servers, "ca": client.ca, "certificate": client.certificate, "key": client.key}
    command = [host.python, "-I", "-", json.dumps(given)]
    done = hosts.run(host, command, stdin=program("planned_etcd"), timeout_seconds=_SECONDS)
    try:
        found = json.loads(done.stdout)
        return None if found["missing"] else {url: _why(found["answers"][url]) for url in client.servers}
    except (ValueError, KeyError, TypeError) as error:
        raise HostError(f"{host.name}: what was answered about etcd can't be understood: {error}") from error


def _why(answer: object) -> str:
    return str(answer["unknown"]) if isinstance(answer, dict) else str(answer)
