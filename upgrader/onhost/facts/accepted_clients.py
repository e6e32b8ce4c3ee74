"""Which of the cluster's own clients kube-apiserver accepts, tested on this host with credentials that never leave it.

An API server can answer, but refuse all clients that rely on it: with another client CA, another token issuer, or other
authorization rules. The operator's own kubeconfig proves nothing about them: it may have expired, or bypass all rules.
It can also accept all of them, but lack what every cluster needs: the workload APIs, or the permission to write.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import ssl
import stat
import time
from base64 import b64decode, urlsafe_b64decode
from functools import partial
from http import HTTPStatus
from typing import Any

from upgrader.onhost.common.questions import Failed, read, together
from upgrader.onhost.common.tls import context, get
from upgrader.onhost.facts.apiserver_answer import API_NAME, KUBELET, authority, listeners, private
from upgrader.onhost.node.cri import Runtime, Sandbox
from upgrader.onhost.node.disk_layout import KUBE_APISERVER
from upgrader.onhost.node.refused_writes import is_servers_own

_KUBELET = "kubelet"
_CONFIGS = ("controller-manager", "scheduler")
_SERVICES = "/api/v1/services?limit=1"
"""A resource that each of them lists regularly, and may list by the default RBAC rules of every cluster."""

_WORKLOADS = "/apis/apps/v1"
_EVENTS = "/api/v1/namespaces/default/events?dryRun=All"
_EVENT = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "upgrader-trial", "namespace": "default"},
        "involvedObject": {"kind": "Namespace", "name": "default", "namespace": "default"},
        "reason": "Trial",
        "message": "Whether this kube-apiserver accepts a write; never stored.",
        "type": "Normal",
        "source": {"component": "kubelet"},
    }
)
"""An object that every kubelet may write."""

_OK = 200

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)
_PRIVATE = re.compile(rb"PRIVATE_ADDRESS='([0-9.]+)'")
_ADDRESS = "volumes/kubernetes.io~empty-dir/runtime/address.env"
_INSTANCE_SECONDS = 7.0
"""Deadline of all requests to one instance; less than the deadline of this fact."""
_TOKENS = 3
_UID = "io.kubernetes.pod.uid"
_MARGIN_SECONDS = 60.0


def accepted(root: str, ports: set[int], runtime: Runtime) -> list[dict[str, Any]]:
    """Each client's `name`, the HTTP `status` that it got, and its `certificate` without the key ("" for a token).

    `conclusive`: whether no correct API server refuses its request, so that one refusal is enough. Each instance with a
    private address is queried separately, as instances may differ: `address` is the instance's, and `pod` its pod's
    UID, "" if unknown. Instances that can't be queried are left out, also those that aren't ready, which may refuse
    requests that they accept later. Raises Failed when kube-apiserver doesn't answer.
    """
    found = sorted(listeners(ports))
    if not found:
        raise Failed("kube-apiserver doesn't listen here")
    ca = authority(root)
    sandboxes = runtime.sandboxes()
    certificates, tokens, pods = _certificates(root), _tokens(root, sandboxes), _pods(root, sandboxes)
    # Without private addresses, any of them: others may lead to another controller.
    instances = [at for at in found if private(at[0])] or found[:1]

    def ask(address: str, port: int) -> list[dict[str, Any]]:
        who = {"address": f"{address}:{port}", "pod": pods.get(address, "")}
        answers = _ask(ca, address, port, certificates, tokens) if _ready(ca, address, port) else []
        return [dict(answer, **who) for answer in answers]

    # One that hangs leaves the others' answers.
    asked = together({f"{at[0]}:{at[1]}": partial(ask, *at) for at in instances}, _INSTANCE_SECONDS)
    answered = [answer for answer in asked.values() if isinstance(answer, list)]
    if not answered:
        raise Failed("; ".join(str(answer["unknown"]) for answer in asked.values()))
    return [item for answer in answered for item in answer]


def _ready(ca: str, address: str, port: int) -> bool:
    """Whether an instance is ready, or doesn't answer that to anonymous clients."""
    status, _ = get(context(ca), address, port, API_NAME, "/readyz")
    return status in (200, 401, 403)


def _ask(
    ca: str, address: str, port: int, certificates: list[tuple[str, bytes]], tokens: list[tuple[str, str]]
) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = []
    kubelet: tuple[ssl.SSLContext, str] | None = None
    for name, certificate in certificates:
        own = context(ca)
        if _loaded(own, certificate):
            status, _ = get(own, address, port, API_NAME, _SERVICES)
            shown = b"".join(_CERTIFICATE.findall(certificate)[:1]).decode("ascii", "replace")
            asked.append({"name": name, "status": status, "certificate": shown, "conclusive": False})
            if name == _KUBELET and status == _OK:
                kubelet = own, shown
    for name, token in tokens:
        status, _ = get(context(ca), address, port, API_NAME, "/api", token=token)
        asked.append({"name": f"the token of {name}", "status": status, "certificate": "", "conclusive": False})
    # Each request may meet another instance where they share an address; there a single answer proves nothing.
    if kubelet and private(address):
        own, shown = kubelet
        asked += [
            {"name": f"{_KUBELET}'s {what}", "status": status, "certificate": shown, "conclusive": True}
            for what, status in _missing(own, address, port)
        ]
    return asked


def _missing(own: ssl.SSLContext, address: str, port: int) -> list[tuple[str, int]]:
    """What an API server that accepts the kubelet still lacks, and the HTTP status that shows it. If one query fails,
    the results of the other one are kept.
    """
    found = []
    with contextlib.suppress(Failed):
        status, _ = get(own, address, port, API_NAME, _WORKLOADS)
        if status == HTTPStatus.NOT_FOUND:
            found.append((f"GET {_WORKLOADS}", status))
    with contextlib.suppress(Failed):
        status, answer = get(own, address, port, API_NAME, _EVENTS, body=_EVENT)
        if status == HTTPStatus.FORBIDDEN and is_servers_own(answer):
            found.append(("dry-run write of an Event", status))
    return found


def _pods(root: str, sandboxes: list[Sandbox]) -> dict[str, str]:
    """Private address → UID of the pod whose init container chose it (the chart's address.sh).

    Only for pods of that name in kube-system: users control the volumes of other pods.
    """
    found = {}
    for pod in sandboxes:
        uid = pod.labels.get(_UID, "")
        named = pod.name == KUBE_APISERVER.name or pod.name.startswith(f"{KUBE_APISERVER.name}-")
        if not uid or "/" in uid or not named or pod.namespace != KUBE_APISERVER.namespace:
            continue
        chosen = _PRIVATE.search(_plain_file(f"{root}/var/lib/kubelet/pods/{uid}/{_ADDRESS}"))
        if chosen:
            found[chosen.group(1).decode()] = uid
    return found


def _plain_file(path: str) -> bytes:
    """A file's first kilobyte; nothing if it isn't a regular file, which may block or have effects when it is read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(file, 1024) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(file)


def _certificates(root: str) -> list[tuple[str, bytes]]:
    """Client certificates with their keys, as PEM."""
    found = []
    with contextlib.suppress(OSError):
        found.append((_KUBELET, read(root + KUBELET)))
    for name in _CONFIGS:
        try:
            text = read(f"{root}/etc/kubernetes/{name}.conf").decode("utf-8", "replace")
        except OSError:
            continue
        parts = [re.search(rf"client-{part}-data:\s*(\S+)", text) for part in ("certificate", "key")]
        if all(parts):
            found.append((f"kube-{name}", b"\n".join(b64decode(part.group(1)) for part in parts if part)))
    return found


def _loaded(own: ssl.SSLContext, pem: bytes) -> bool:
    """Load a certificate and its key without a file on a disk."""
    memory = os.memfd_create("client")
    try:
        os.write(memory, pem)
        own.load_cert_chain(f"/proc/self/fd/{memory}")
    except (OSError, ssl.SSLError):
        return False
    finally:
        os.close(memory)
    return True


def _tokens(root: str, sandboxes: list[Sandbox]) -> list[tuple[str, str]]:
    """(Pod, token) of kube-system's pods that run here, one of each ServiceAccount, as long as the token is valid.

    In other namespaces, users choose the names of volumes and the audiences of tokens.
    """
    found: dict[str, tuple[str, str]] = {}
    for pod in sorted(sandboxes, key=lambda pod: pod.name):
        folder = f"{root}/var/lib/kubelet/pods/{pod.labels.get(_UID, '-')}/volumes/kubernetes.io~projected"
        ours = pod.ready and not pod.from_file and pod.namespace == KUBE_APISERVER.namespace
        if not ours or not os.path.isdir(folder):
            continue
        # Only these are for the API server itself; others are for whoever their audience names.
        for volume in sorted(name for name in os.listdir(folder) if name.startswith("kube-api-access-"))[:1]:
            try:
                token = read(f"{folder}/{volume}/token").decode().strip()
                claims = _claims(token)
                if _valid(claims, time.time()):
                    found.setdefault(str(claims["sub"]), (f"{pod.namespace}/{pod.name}", token))
            except (OSError, ValueError, KeyError, TypeError):
                continue
    return list(found.values())[:_TOKENS]


def _claims(token: str) -> dict[str, Any]:
    """The claims of a token. Raises ValueError or TypeError if it isn't one."""
    parts = token.split(".")[1:2]
    if not parts:
        raise ValueError("no token")
    return dict(json.loads(urlsafe_b64decode(parts[0] + "=" * (-len(parts[0]) % 4))))


def _valid(claims: dict[str, Any], now: float) -> bool:
    """Whether a token is valid now, with tolerance for clock skew. Raises KeyError without a time."""
    begins = max(float(claims.get("nbf", 0)), float(claims.get("iat", 0)))
    return begins + _MARGIN_SECONDS < now < float(claims["exp"]) - _MARGIN_SECONDS
