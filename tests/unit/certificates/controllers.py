"""Controllers whose kubeadm knows certificates, and a control plane that reads them as the real one does."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import LONG_AGO, add_deployment, add_pod, running
from upgrader.certificates.steps import RESTARTED_AT
from upgrader.gates.kubernetes_kinds import PODS, WORKLOADS
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult, KubeObject

__all__ = ["CONF", "Certificate", "Controllers", "add_control_plane"]

LEADERS = {"kube-controller-manager": "controller-manager.conf", "kube-scheduler": "scheduler.conf"}
CONF = "/etc/kubernetes"
STARTED = datetime.fromisoformat(LONG_AGO.replace("Z", "+00:00"))


@dataclass
class Certificate:
    """One, as kubeadm lists it. `serial` counts its renewals."""

    ends: datetime
    authority: str = "ca"
    external: bool = False
    missing: bool = False
    serial: int = 0


@dataclass
class Controllers(FakeHosts):
    """Hosts that understand what a renewal sends them."""

    now: Callable[[], datetime]
    certificates: dict[str, dict[str, Certificate]] = field(default_factory=dict)
    """Controller → kubeadm's name → certificate."""
    kept: dict[str, tuple[str, dict[str, int]]] = field(default_factory=dict)
    """Controller → the renewal that kept files, and the serials before it."""
    changed: dict[str, datetime] = field(default_factory=dict)
    """`CONTROLLER/NAME` → when the file was changed."""
    torn: dict[str, list[str]] = field(default_factory=dict)
    """Controller → what an interrupted renewal left unusable there."""
    refuses: dict[str, str] = field(default_factory=dict)
    """Controller → why its kubeadm fails."""
    serves_old: set[str] = field(default_factory=set)
    """Controllers whose kube-apiserver never reads its files again."""
    told: list[tuple[str, ...]] = field(default_factory=list)
    """Controller, command and arguments, in their order."""
    instant: Callable[[str], None] = lambda _: None
    """Called before and after each change."""

    def __post_init__(self) -> None:
        super().__init__()
        self.commands = {"python3": self._python, "stat": self._stat}

    def _python(self, host: Host, command: Sequence[str], _sent: bytes) -> CommandResult:
        what, *arguments = command[3:]
        if what in ("renew", "put-back"):
            self.instant(f"before {what} {host.name}")
        if what != "served":
            self.told.append((host.name, what, *arguments))
        answer: dict[str, Any] = {}
        mine = self.certificates[host.name]
        if what == "mend":
            answer = {"changed": self.torn.pop(host.name, [])}
        elif what == "look":
            answer = {"kubeadm": json.dumps({"certificates": [_listed(*item) for item in mine.items()]})}
        elif what == "served":
            others = [f"kube-apiserver at {arguments[0]}:{arguments[1]}: it doesn't serve the certificate"]
            answer = {"others": others if host.name in self.serves_old and mine["apiserver"].serial else []}
        elif what == "renew" and host.name in self.refuses:
            answer = {"failed": self.refuses[host.name]}
        elif what == "renew":
            renewal, _, *names = arguments
            self.kept[host.name] = (renewal, {name: mine[name].serial for name in names})
            answer = {"changed": [self._renew(host.name, name) for name in names]}
            self.instant(f"after renew {host.name}")
        elif what == "put-back":
            renewal, serials = self.kept.get(host.name, ("", {}))
            if renewal == arguments[0]:
                for name, serial in serials.items():
                    mine[name].serial = serial
                    self.changed.pop(f"{host.name}/{name}", None)
                answer = {"changed": list(serials)}
            else:
                answer = {"changed": []}
        return CommandResult(0, f"Welcome!\n{json.dumps(answer)}\n", "")

    def _renew(self, host: str, name: str) -> str:
        found = self.certificates[host][name]
        found.serial, found.ends = found.serial + 1, self.now() + timedelta(days=365)
        self.changed[f"{host}/{name}"] = self.now()
        return name

    def _stat(self, host: Host, command: Sequence[str], _: bytes) -> CommandResult:
        at = self.changed.get(f"{host.name}/{command[-1].rpartition('/')[2]}", STARTED - timedelta(days=1))
        return CommandResult(0, f"{at.timestamp():.0f}\n", "")


class RollingKube(FakeKube):
    """Replaces the pods of a Deployment when its template's annotation changes."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__()
        self.now = now
        self.stuck: set[str] = set()
        """Deployments whose new pods don't start."""

    def patch(self, *arguments: Any, **named: Any) -> KubeObject:
        found = super().patch(*arguments, **named)
        name = found["metadata"]["name"]
        if name in LEADERS:
            annotated = found["spec"]["template"]["metadata"]["annotations"]
            stuck = name in self.stuck and annotated.get(RESTARTED_AT)
            if not stuck:
                for pod in self.list(PODS, labels=f"app={name}"):
                    add_leader(self, name, pod["spec"]["nodeName"], since=f"{self.now():%Y-%m-%dT%H:%M:%SZ}")
            status = {**found["status"], "observedGeneration": found["metadata"]["generation"]}
            status["updatedReplicas"] = 0 if stuck else found["spec"]["replicas"]
            self.put(WORKLOADS["Deployment"], {**found, "status": status})
        return found


def add_leader(kube: FakeKube, name: str, node: str, *, since: str = LONG_AGO) -> None:
    """A pod that reads its kubeconfig from a file of its controller."""
    pod = add_pod(kube, name, running(name, since=since), node=node)
    found = dict(kube.get(PODS, pod, "kube-system") or {})
    path = f"{CONF}/{LEADERS[name]}"
    container: dict[str, Any] = {"name": name, "command": [name, f"--kubeconfig={path}"]}
    container["volumeMounts"] = [{"name": "kubeconfig", "mountPath": path}]
    volumes = [{"name": "kubeconfig", "hostPath": {"path": path}}]
    kube.put(PODS, {**found, "spec": {**found["spec"], "containers": [container], "volumes": volumes}})


def add_control_plane(kube: FakeKube, *nodes: str) -> None:
    """kube-apiserver, which serves a file of its controller, and the leaders."""
    count = len(nodes)
    for name in ("kube-apiserver", *LEADERS):
        add_deployment(kube, name, replicas=count)
        found = dict(kube.get(WORKLOADS["Deployment"], name, "kube-system") or {})
        command = [name, "--secure-port=6443", "--tls-cert-file=/etc/kubernetes/pki/apiserver.crt"]
        container: dict[str, Any] = {"name": name, "command": command}
        container["volumeMounts"] = [{"name": "pki", "mountPath": "/etc/kubernetes/pki"}]
        spec = {"containers": [container], "volumes": [{"name": "pki", "hostPath": {"path": "/etc/kubernetes/pki"}}]}
        kube.put(WORKLOADS["Deployment"], {**found, "spec": {**found["spec"], "template": {"spec": spec}}})
        for number, node in enumerate(nodes, 1):
            if name in LEADERS:
                add_leader(kube, name, node)
            else:
                add_pod(kube, name, running(name), node=node, host_ip=f"10.0.0.{number}")


def _listed(name: str, found: Certificate) -> dict[str, Any]:
    if found.missing:
        return {"name": name, "expirationDate": None, "missing": True}
    ends = f"{found.ends.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    known = {"caName": found.authority, "externallyManaged": found.external, "residualTime": 1}
    return {"name": name, "expirationDate": ends, **known}
