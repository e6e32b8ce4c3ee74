"""A workload that an upgrade must not disturb: a web server behind a Service, its client, and an operator's pod.

The client resolves the Service's name for each request, so that it also tests CoreDNS and kube-proxy. The operator
uses the API as pods do: over the ClusterIP of Service `kubernetes`, with the token of its service account.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from testkit.waiting import Patience
from upgrader.errors import ApiError
from upgrader.lab.image_catalog import IMAGE_VERSIONS
from upgrader.ports import Kind, Kube, KubeObject

__all__ = ["Client", "Pods", "Tally", "Workload"]

NAMESPACE = "client-workload"
_NAMESPACES = Kind("v1", "namespaces", namespaced=False)
_PODS = Kind("v1", "pods")
_SERVICES = Kind("v1", "services")
_DEPLOYMENTS = Kind("apps/v1", "deployments")
_IMAGE = f"upgrader.lab/tools:{IMAGE_VERSIONS['tools']}"

_ASK_WEB = """
import urllib.request

THINK_SECONDS = 0.05

def ask():
    urllib.request.urlopen("http://web.client-workload.svc.cluster.local.:8080/", timeout=2).read()
"""

_ASK_API = """
import os, ssl, urllib.request
from pathlib import Path

THINK_SECONDS = 0.2
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TLS = ssl.create_default_context(cafile=ACCOUNT / "ca.crt")

def ask():
    token = (ACCOUNT / "token").read_text()  # the kubelet renews it
    request = urllib.request.Request(f"https://{os.environ['KUBERNETES_SERVICE_HOST']}/api")
    request.add_header("Authorization", f"Bearer {token}")
    urllib.request.urlopen(request, timeout=2, context=TLS).read()
"""

_KEEP_ASKING = """
import http.client, json, time

WRONG = OSError, http.client.HTTPException

in_a_row = 0
while in_a_row < 20:  # its own start doesn't count: a DNS server may not know the Service yet
    try:
        ask()
        in_a_row += 1
    except WRONG:
        in_a_row = 0
    time.sleep(THINK_SECONDS)
requests = failed = 0
last_failure = ""
longest = 0.0
answered = printed = time.monotonic()
while True:
    requests += 1
    try:
        ask()
    except WRONG as error:
        failed += 1
        last_failure = f"{time.strftime('%H:%M:%S', time.gmtime())} {error}"
    else:
        now = time.monotonic()
        longest, answered = max(longest, now - answered), now
    if time.monotonic() - printed >= 1:
        printed = time.monotonic()
        tally = {"requests": requests, "failed": failed, "longest_gap_ms": longest * 1000}
        print(json.dumps({**tally, "last_failure": last_failure}), flush=True)
    time.sleep(THINK_SECONDS)
"""


Client = Literal["client", "operator"]
"""The web server's client, or the API's."""

_ASK: Mapping[Client, str] = {"client": _ASK_WEB, "operator": _ASK_API}


@dataclass(frozen=True)
class Tally:
    """A client's counts since its first answer. The longest gap is between two answers, including its think time.

    `last_failure` is the time, in UTC, and the error of the last request that failed; "" if none did.
    """

    requests: int
    failed: int
    longest_gap_ms: float
    last_failure: str = ""


@dataclass(frozen=True)
class Pods:
    """The workload's pods: UID → restarts of its containers."""

    restarts: Mapping[str, int]

    def disturbances_since(self, earlier: Pods) -> tuple[str, ...]:
        """Replaced and restarted pods since `earlier`, one line each; empty if there are none."""
        lost = [f"pod {uid} was replaced" for uid in earlier.restarts if uid not in self.restarts]
        restarted = [
            f"pod {uid} restarted {count - earlier.restarts[uid]} times"
            for uid, count in self.restarts.items()
            if count > earlier.restarts.get(uid, count)
        ]
        return (*lost, *restarted)


class Workload:
    """The workload in one cluster."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    def deploy(self, timeout_seconds: float = 120.0) -> None:
        """Create it, and wait until its clients get answers; raises TimeoutError with the pods' state."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self._kube.apply(_NAMESPACES, namespace)
        self._kube.apply(_SERVICES, _service(), NAMESPACE)
        self._kube.apply(_DEPLOYMENTS, _deployment("web", ["python3", "-m", "http.server", "8080"]), NAMESPACE)
        for client, ask in _ASK.items():
            self._kube.apply(_DEPLOYMENTS, _deployment(client, ["python3", "-c", ask + _KEEP_ASKING]), NAMESPACE)
        patience = Patience(timeout_seconds)
        while not all(self._answered(client) for client in _ASK):
            if not patience.left():
                states = [(pod["metadata"]["name"], pod.get("status", {}).get("phase")) for pod in self._pods("")]
                raise TimeoutError(f"a client of the workload had no answer within {timeout_seconds:.0f} s: {states}")
            time.sleep(0.5)

    def stop(self) -> None:
        """End its pods: on two cores, an unused workload takes a fifth of what the next test needs."""
        for name in ("web", *_ASK):
            self._kube.patch(_DEPLOYMENTS, name, {"spec": {"replicas": 0}}, NAMESPACE)

    def pods(self) -> Pods:
        """The present pods."""
        found = {}
        for pod in self._pods(""):
            statuses = pod.get("status", {}).get("containerStatuses", [])
            found[str(pod["metadata"]["uid"])] = sum(int(status["restartCount"]) for status in statuses)
        return Pods(found)

    def tally(self, client: Client) -> Tally:
        """A client's counts so far; raises LookupError if it is missing or has printed nothing yet."""
        for pod in self._pods(f"app={client}"):
            for line in self._kube.logs(NAMESPACE, pod["metadata"]["name"], client, lines=1).splitlines():
                return Tally(**json.loads(line))
        raise LookupError(f"the workload's {client} has printed nothing")

    def _answered(self, client: Client) -> bool:
        try:
            tally = self.tally(client)
        except (LookupError, ApiError):  # not started yet: its log can't be read
            return False
        return tally.requests > tally.failed

    def _pods(self, labels: str) -> tuple[KubeObject, ...]:
        return self._kube.list(_PODS, NAMESPACE, labels=labels)


def _service() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 8080}]},
    }


def _deployment(name: str, command: list[str]) -> dict[str, Any]:
    container = {
        "name": name,
        "image": _IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
    }
    if name == "web":
        container["readinessProbe"] = {"tcpSocket": {"port": 8080}, "periodSeconds": 2}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "automountServiceAccountToken": name == "operator",
                    "terminationGracePeriodSeconds": 1,
                    "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
                    "containers": [container],
                },
            },
        },
    }
