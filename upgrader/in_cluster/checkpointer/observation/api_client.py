"""The API server, as the kubelet of this node talks to it."""

from __future__ import annotations

import base64
import http.client
import ipaddress
import json
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from upgrader.contract.checkpoints import CONDITION, HELM_RELEASE, HELM_REVISION
from upgrader.in_cluster.checkpointer.checkpointer_errors import ApiAway, ApiError, ApiUnknown
from upgrader.in_cluster.checkpointer.observation.kubelet_kubeconfig import Endpoint, load
from upgrader.in_cluster.checkpointer.observed_values import Content, Owner
from upgrader.in_cluster.checkpointer.static_pods.pods import Pod

_STRATEGIC = "application/strategic-merge-patch+json"
_BALANCED = 8
"""New connections by which a load balancer is told from a server: it gives each one to any of its servers."""


class Api:
    """A kept connection with the kubelet's credential. `timeout_seconds`: seconds for connecting, and for each read.
    `address`: the node's own.

    Every method raises ApiAway when nothing answers, ApiUnknown when an answer comes from which nothing follows.
    """

    def __init__(self, kubeconfig: Path, node: str, timeout_seconds: float, address: str = "") -> None:
        self._kubeconfig, self._node, self._timeout_seconds = kubeconfig, node, timeout_seconds
        self._address = address
        self._endpoint: Endpoint | None = None
        self._stamp: tuple[tuple[int, int], ...] = ()
        self._connection: http.client.HTTPSConnection | None = None
        self._here = False

    def pods(self) -> list[Pod]:
        """All pods bound to this node."""
        query = urlencode({"fieldSelector": f"spec.nodeName={self._node}"})
        items = self._object("GET", f"/api/v1/pods?{query}").get("items")
        if not isinstance(items, list):
            raise ApiUnknown("the API's list of pods has no field `items`")
        return items

    def content(self, kind: str, namespace: str, name: str) -> Content | None:
        """A Secret or ConfigMap; None when it doesn't exist."""
        try:
            found = self._object("GET", f"/api/v1/namespaces/{quote(namespace)}/{kind.lower()}s/{quote(name)}")
        except _NotFound:
            return None
        binary = found.get("data" if kind == "Secret" else "binaryData") or {}
        content = {key: base64.b64decode(value) for key, value in binary.items()}
        if kind == "ConfigMap":
            content |= {key: value.encode() for key, value in (found.get("data") or {}).items()}
        meta = found.get("metadata") or {}
        times = [e["time"] for e in meta.get("managedFields") or [] if e.get("time")]
        times += [meta["creationTimestamp"]] if meta.get("creationTimestamp") else []
        if not times:
            raise ApiUnknown(f"{kind} {namespace}/{name} has no creation time")
        return Content(content, max(times))

    def owner(self, kind: str, namespace: str, name: str) -> Owner | None:
        """A Deployment, DaemonSet or StatefulSet; None when it doesn't exist."""
        path = f"/apis/apps/v1/namespaces/{quote(namespace)}/{kind.lower()}s/{quote(name)}"
        try:
            return _owner(kind, self._object("GET", path))
        except _NotFound:
            return None

    def is_here(self) -> bool:
        """Whether the API server that answered last was reached on this very node, as its kubelet reaches it."""
        return self._here

    def serves_elsewhere(self) -> bool:
        """Whether an API server that isn't this node's answers, asked at its own address."""
        return any(self._serves(host, port) for host, port in self._others())

    def leads_elsewhere(self) -> bool:
        """Whether the kubelet's address for the API also leads to another node's server, as that of a load balancer on
        this node does.

        A server is told by its certificate. Where this node's own isn't known, or all have the same, the answer is no:
        it can't be seen that the kubelet would still have an API without the server here.
        """
        others = self._others()
        own = {self._certificate(self._address, port) for _, port in others[:1] if self._address}
        theirs = {self._certificate(host, port) for host, port in others} - own - {None}
        if not theirs or not own or None in own:
            return False
        assert self._endpoint is not None  # it was just used
        host, port = self._endpoint.host, self._endpoint.port
        return any(self._certificate(host, port) in theirs for _ in range(_BALANCED))

    def _others(self) -> list[tuple[str, int]]:
        """The addresses and ports of the API servers that aren't this node's."""
        path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
        found = self._object("GET", path)
        ports = [p["port"] for p in found.get("ports") or [] if p.get("port")]
        hosts = {a for e in found.get("endpoints") or [] for a in e.get("addresses") or []} - {self._address}
        return [(host, ports[0]) for host in sorted(hosts) if ports]

    def _certificate(self, host: str, port: int) -> bytes | None:
        """Of the server that a new connection to this address reaches; None where that has no valid one."""
        connection = self._new_connection(host, port)
        try:
            connection.connect()
            assert isinstance(connection.sock, ssl.SSLSocket)
            return connection.sock.getpeercert(binary_form=True)
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def _new_connection(self, host: str, port: int) -> http.client.HTTPSConnection:
        assert self._endpoint is not None  # it was just used
        return http.client.HTTPSConnection(host, port, timeout=self._timeout_seconds, context=self._endpoint.context)

    def _serves(self, host: str, port: int) -> bool:
        connection = self._new_connection(host, port)
        try:
            connection.request("GET", "/readyz", headers={"User-Agent": "pod-checkpointer"})
            response = connection.getresponse()
            response.read()
            return response.status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def lease(self, namespace: str, name: str) -> tuple[str, str]:
        """(time of the last renewal, holder) of a Lease; two empty strings when it doesn't exist."""
        try:
            found = self._object(
                "GET", f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace)}/leases/{quote(name)}"
            )
        except _NotFound:
            return "", ""
        spec = found.get("spec") or {}
        return str(spec.get("renewTime") or ""), str(spec.get("holderIdentity") or "")

    def set_condition(self, namespace: str, pod: str, status: str, reason: str, message: str, now: str) -> None:
        """Write our condition on a pod. `now`: RFC 3339."""
        condition = {
            "type": CONDITION,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": now,
        }
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/status"
        self._object("PATCH", path, json.dumps({"status": {"conditions": [condition]}}).encode())

    def close(self) -> None:
        """Drop the connection; the next request makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _object(self, method: str, path: str, body: bytes | None = None) -> Mapping[str, Any]:
        status, content = self._request(method, path, body)
        where = f"{method} {path.partition('?')[0]}"
        if status == http.client.NOT_FOUND:
            if not _is_status(content):
                # Its words for a path: it may not serve the whole API (--runtime-config), or be no API server.
                raise ApiUnknown(
                    f"{where}: 404: the answer isn't from an API server, or the API server doesn't serve this kind"
                )
            raise _NotFound(f"{where}: 404")
        if status >= http.client.INTERNAL_SERVER_ERROR:
            raise ApiAway(f"{where}: {status}")
        if status != http.client.OK:
            raise ApiUnknown(f"{where}: {status}: {_reason(content)}")
        try:
            found = json.loads(content)
        except ValueError as error:
            raise ApiUnknown(f"{where}: the answer is not JSON") from error
        if not isinstance(found, dict):
            raise ApiUnknown(f"{where}: the answer is not an object")
        return found

    def _request(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        kept = self._connection is not None
        try:
            status, content = self._exchange(method, path, body)
        except ApiAway:
            # The server may have closed a kept connection (because it was replaced): that alone doesn't make it
            # unreachable.
            if not kept:
                raise
            return self._exchange(method, path, body)
        if kept and status == HTTPStatus.TOO_MANY_REQUESTS:
            # A stopping server refuses kept connections; another one accepts new connections.
            self.close()
            return self._exchange(method, path, body)
        return status, content

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        connection = self._connect()
        try:
            headers = {"Accept": "application/json", "User-Agent": "pod-checkpointer"}
            if body is not None:
                headers["Content-Type"] = _STRATEGIC
            connection.request(method, path, body, headers)
            self._here = on_this_machine(connection.sock.getsockname()[0], connection.sock.getpeername()[0])
            response = connection.getresponse()
            content = response.read()
            if response.will_close:
                self.close()
            return response.status, content
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise ApiUnknown(f"the API server's certificate is not valid: {error.verify_message}") from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ApiAway(f"{connection.host}:{connection.port}: {error or type(error).__name__}") from error

    def _connect(self) -> http.client.HTTPSConnection:
        if self._endpoint is None or self._endpoint.stamp() != self._stamp:
            self.close()
            self._endpoint = load(self._kubeconfig)
            self._stamp = self._endpoint.stamp()
        if self._connection is None:
            at = self._endpoint
            self._connection = http.client.HTTPSConnection(
                at.host, at.port, timeout=self._timeout_seconds, context=at.context
            )
        return self._connection


def on_this_machine(own: str, peer: str) -> bool:
    """Whether both ends of a connection, by their IP addresses, are one machine: what connects to an address of its own
    connects from that address, and no other machine answers at a loopback address.
    """
    return own == peer or ipaddress.ip_address(peer.partition("%")[0]).is_loopback


def _owner(kind: str, found: Mapping[str, Any]) -> Owner:
    meta, spec, status = (found.get(part) or {} for part in ("metadata", "spec", "status"))
    notes = meta.get("annotations") or {}
    if kind == "DaemonSet":
        wanted = status.get("desiredNumberScheduled")
        reached = [status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0)]
    else:
        wanted = spec.get("replicas")
        reached = [status.get(n, 0) for n in ("replicas", "updatedReplicas", "availableReplicas")]
    observed = status.get("observedGeneration", 0) >= meta.get("generation", 1)
    return Owner(
        settled=observed and wanted is not None and all(n == wanted for n in reached),
        release=str(notes.get(HELM_RELEASE, "")),
        revision=str(notes.get(HELM_REVISION, "")),
    )


class _NotFound(ApiError):
    """The server answers, and has no such object."""


def _is_status(content: bytes) -> bool:
    """Whether it is Kubernetes' own answer, about an object."""
    try:
        return bool(json.loads(content)["kind"] == "Status")
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _reason(content: bytes) -> str:
    try:
        return str(json.loads(content).get("message", ""))
    except (ValueError, AttributeError):
        return "no reason given"
