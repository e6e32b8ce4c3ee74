"""Whether the etcd that a standby pod of kube-apiserver needs answers: without it no generation could stay up."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from upgrader.contract.flags import command_line, last_values

_TIMEOUT_SECONDS = 1.0
_FILES = ("etcd-cafile", "etcd-certfile", "etcd-keyfile")
Json = Mapping[str, Any]


def is_away(pod: Json) -> bool:
    """Whether none of the etcd servers that a static pod's containers name is healthy. False for a pod that names none.

    Asked with the pod's own files, as far as they can be read here; otherwise a server that listens counts as healthy.
    """
    for container in pod["spec"]["containers"]:
        flags = last_values(command_line(container))
        servers = [urlsplit(url) for url in flags.get("etcd-servers", "").split(",") if url]
        if servers:
            context = _context(flags, _mounts(pod, container))
            return not any(_healthy(s.hostname or "", s.port or 2379, context) for s in servers)
    return False


def _mounts(pod: Json, container: Json) -> dict[str, str]:
    """Path in the container → path on the node."""
    on_node = {v["name"]: v["hostPath"]["path"] for v in pod["spec"].get("volumes") or [] if "hostPath" in v}
    mounts = container.get("volumeMounts") or []
    return {m["mountPath"]: on_node[m["name"]] for m in mounts if m["name"] in on_node and "subPath" not in m}


def _context(flags: Mapping[str, str], mounts: Mapping[str, str]) -> ssl.SSLContext | None:
    try:
        authority, certificate, key = (_on_node(flags[name], mounts) for name in _FILES)
        context = ssl.create_default_context(cafile=authority)
        context.load_cert_chain(certificate, key)
    except (KeyError, OSError):  # ssl.SSLError is an OSError
        return None
    return context


def _on_node(path: str, mounts: Mapping[str, str]) -> str:
    for mounted, source in mounts.items():
        if PurePosixPath(path).is_relative_to(mounted):
            return str(Path(source) / PurePosixPath(path).relative_to(mounted))
    raise KeyError(path)


def _healthy(host: str, port: int, context: ssl.SSLContext | None) -> bool:
    try:
        if context is None:
            socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS).close()
            return True
        connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_SECONDS, context=context)
        try:
            connection.request("GET", "/health")
            return bool(json.loads(connection.getresponse().read(4096)).get("health") == "true")
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError, AttributeError):
        return False
