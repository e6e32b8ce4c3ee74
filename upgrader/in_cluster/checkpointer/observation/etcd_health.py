"""Whether the etcd that a pod of kube-apiserver needs answers: without it, it can neither serve nor stay up."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from upgrader.contract.flags import command_line, last_values

_VARIABLE = re.compile(r"\$\(([-._a-zA-Z0-9]+)\)")
_FILES = ("etcd-cafile", "etcd-certfile", "etcd-keyfile")
Json = Mapping[str, Any]


def is_away(pod: Json, timeout_seconds: float) -> bool:
    """Whether none of the etcd servers that a pod's containers name is healthy. False for a pod that names none.

    Asked with the pod's own files, as far as they can be read here; otherwise a server that listens counts as healthy.
    So does one that doesn't speak HTTP/1.1 (etcd's --listen-client-http-urls), and one whose address is only known in
    the container. `timeout_seconds`: for each server.
    """
    for container in pod["spec"]["containers"]:
        flags = last_values(command_line(container))
        servers = [_server(url) for url in flags.get("etcd-servers", "").split(",") if url]
        if servers:
            context = _context(flags, _mounts(pod, container))
            return not any(not host or _healthy(host, port, context, timeout_seconds) for host, port in servers)
    return False


def _server(url: str) -> tuple[str, int]:
    """Host and port; ("", 0) where the URL isn't one, or its host is only known in the container."""
    try:
        parts = urlsplit("" if _VARIABLE.search(url) else url)
        return parts.hostname or "", parts.port or 2379
    except ValueError:
        return "", 0


def _mounts(pod: Json, container: Json) -> dict[str, str]:
    """Path in the container → path on the node."""
    on_node = {v["name"]: v["hostPath"]["path"] for v in pod["spec"].get("volumes") or [] if "hostPath" in v}
    mounts = container.get("volumeMounts") or []
    return {m["mountPath"]: on_node[m["name"]] for m in mounts if m["name"] in on_node and "subPath" not in m}


def _context(flags: Mapping[str, str], mounts: Mapping[str, str]) -> ssl.SSLContext | None:
    try:
        authority, certificate, key = (_on_node(flags[name], mounts) for name in _FILES)
        context = ssl.create_default_context(cafile=authority)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as etcd: also a CA that another has issued
        context.load_cert_chain(certificate, key)
    except (KeyError, OSError):  # ssl.SSLError is an OSError
        return None
    return context


def _on_node(path: str, mounts: Mapping[str, str]) -> str:
    for mounted, source in mounts.items():
        if PurePosixPath(path).is_relative_to(mounted):
            return str(Path(source) / PurePosixPath(path).relative_to(mounted))
    raise KeyError(path)


def _healthy(host: str, port: int, context: ssl.SSLContext | None, timeout_seconds: float) -> bool:
    try:
        if context is None:
            socket.create_connection((host, port), timeout=timeout_seconds).close()
            return True
        connection = http.client.HTTPSConnection(host, port, timeout=timeout_seconds, context=context)
        try:
            connection.connect()
            return _reports_health(connection)
        finally:
            connection.close()
    except OSError:
        return False


def _reports_health(connection: http.client.HTTPSConnection) -> bool:
    try:
        connection.request("GET", "/health")
        body = connection.getresponse().read(4096)
    except (http.client.HTTPException, ConnectionError):  # gRPC alone is served here: it closes the connection
        return True
    try:
        return bool(json.loads(body).get("health") == "true")
    except (ValueError, AttributeError):
        return False
