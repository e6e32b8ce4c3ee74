"""A pod's readiness probes, asked by ourselves: the Ready condition is the kubelet's last report, and may be old.

Only httpGet and tcpSocket can be asked from outside the pod. For exec and grpc probes the kubelet's report has to do,
together with the containers' state in the container runtime.

Where pods of one workload share a port of the node (SO_REUSEPORT), as the old and the new kube-apiserver do, or its
standby pod, a probe is answered by any of them: for a new one that can't reach etcd, and so doesn't listen, by the old
one. Such an answer counts only while each of them listens.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Mapping
from typing import Any

from upgrader.in_cluster.checkpointer.static_pods.pods import Pod
from upgrader.onhost.node.listening_sockets import sockets_at

_TIMEOUT_SECONDS = 3.0
_OK = range(200, 400)


def unready(pod: Pod, instances: int = 1) -> str:
    """Which probe of the pod doesn't pass, and why; empty when all that can be asked do. `instances`: how many pods of
    its workload run on this node, standby pods included.
    """
    address = pod.get("status", {}).get("podIP", "")
    for container in pod["spec"]["containers"]:
        probe = container.get("readinessProbe") or {}
        ports = {p["name"]: p["containerPort"] for p in container.get("ports") or [] if "name" in p}
        action = probe.get("httpGet") or probe.get("tcpSocket")
        if action is None:
            continue
        host, port = action.get("host") or address, ports.get(action["port"], action["port"])
        try:
            why = _get(host, int(port), probe["httpGet"]) if "httpGet" in probe else _connect(host, int(port))
            if not why and instances > 1 and pod["spec"].get("hostNetwork"):
                why = _unattributed(host, int(port), instances)
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = str(error) or type(error).__name__
        if why:
            return f"the readiness probe of container {container['name']} at {host}:{port}: {why}"
    return ""


def _unattributed(host: str, port: int, instances: int) -> str:
    listening = sockets_at(host, port)
    if listening >= instances:
        return ""
    return f"{instances} instances run here, and {listening} of them listen: it is not known which one answered"


def _connect(host: str, port: int) -> str:
    socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS).close()
    return ""


def _get(host: str, port: int, action: Mapping[str, Any]) -> str:
    connection: http.client.HTTPConnection
    if action.get("scheme") == "HTTPS":
        # As the kubelet does: pods serve probes with certificates of their own making. Nothing secret is sent.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_SECONDS, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)
    try:
        headers = {h["name"]: h.get("value", "") for h in action.get("httpHeaders") or []}
        connection.request("GET", action.get("path") or "/", headers=headers)
        status = connection.getresponse().status
        return "" if status in _OK else f"HTTP {status}"
    finally:
        connection.close()
