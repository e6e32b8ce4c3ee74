"""A cluster whose kubelets try programs, and a plan that starts some."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from testkit.fakes.kube import FakeKube
from upgrader.errors import ApiError
from upgrader.model.cluster import Host
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind, KubeObject
from upgrader.steps.plan import Plan
from upgrader.steps.release.plan import PlannedRelease

__all__ = ["API_SERVER", "CONFIG_MAPS", "CONTROLLERS", "PODS", "Kubelets", "ended", "plan", "running"]

PODS, NODES = Kind("v1", "pods"), Kind("v1", "nodes", namespaced=False)
CONFIG_MAPS = Kind("v1", "configmaps")
CONTROLLERS = (Host("controller-1", ""), Host("controller-2", ""))

API_SERVER = """
kind: Deployment
metadata: {name: kube-apiserver}
spec:
  template:
    metadata: {labels: {app: kube-apiserver}}
    spec:
      hostNetwork: true
      serviceAccountName: admin
      nodeSelector: {role: control}
      securityContext: {runAsUser: 0, sysctls: [{name: net.core.somaxconn, value: '1'}]}
      initContainers: [{name: address, image: 'r.io/haproxy:3', command: [/bin/sh, /address.sh]}]
      containers:
        - name: kube-apiserver
          image: r.io/kube-apiserver:v1.37.1
          command: [/run/sh, -c, 'exec "$0" "$@"', kube-apiserver]
          args: ['--etcd-servers=https://10.0.0.1:2379', --etcd-cafile, /pki/etcd-ca.crt, '--v=2',
                 '--token-auth-file=/run/kube/tokens.csv', '--audit-policy-file=/audit/policy.yaml']
          env: [{name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}]
          livenessProbe: {httpGet: {path: /livez, port: 6443}}
          securityContext: {privileged: true, runAsGroup: 0}
          volumeMounts:
            - {name: pki, mountPath: /pki, mountPropagation: Bidirectional}
            - {name: runtime, mountPath: /run/kube}
            - {name: audit, mountPath: /audit}
            - {name: logs, mountPath: /var/log/audit}
            - {name: token, mountPath: /token}
        - {name: haproxy, image: 'r.io/haproxy:3', volumeMounts: [{name: proxy, mountPath: /proxy}]}
      volumes:
        - {name: pki, hostPath: {path: /etc/pki, type: Directory}}
        - {name: runtime, emptyDir: {}}
        - {name: audit, configMap: {name: audit}}
        - {name: logs, hostPath: {path: /var/log/audit, type: DirectoryOrCreate}}
        - {name: proxy, configMap: {name: proxy}}
        - {name: token, projected: {sources: [{serviceAccountToken: {path: token}}]}}
---
kind: ConfigMap
metadata: {name: audit}
data: {policy.yaml: planned}
---
kind: ConfigMap
metadata: {name: proxy}
data: {a: b}
"""


def plan(*manifests: str, before: str = "") -> Plan:
    """Of one release in kube-system."""
    after = "\n---\n".join(manifests or (API_SERVER,))
    release = PlannedRelease(ReleaseSpec("app", "kube-system", Path("/c")), "upgrade", "change", before, after, ())
    return Plan(KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1), (release,))


def ended(code: int, message: str = "", reason: str = "Error") -> dict[str, Any]:
    """The status of a pod whose program has ended."""
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": [{"name": "trial", "state": state}]}


def running() -> dict[str, Any]:
    """The status of a pod whose program runs."""
    return {"phase": "Running", "containerStatuses": [{"name": "trial", "state": {"running": {}}}]}


class Kubelets(FakeKube):
    """`answer` makes a pod's status, whenever the pod is read."""

    def __init__(self, answer: Callable[[KubeObject], dict[str, Any]]) -> None:
        super().__init__()
        self.answer = answer
        self.created: list[KubeObject] = []
        self.refuses: dict[str, ApiError] = {}
        """The plural of a kind → what its creation raises."""
        for host in CONTROLLERS:
            self.add_node(host.name)

    def add_node(self, name: str, ready: str = "True") -> None:
        """A controller."""
        conditions = [{"type": "Ready", "status": ready}]
        self.put(
            NODES, {"metadata": {"name": name, "labels": {"role": "control"}}, "status": {"conditions": conditions}}
        )

    def create(self, kind: Kind, manifest: KubeObject, namespace: str = "", *, dry_run: bool = False) -> KubeObject:
        if kind.plural in self.refuses:
            raise self.refuses[kind.plural]
        self.created.append(manifest)
        return super().create(kind, manifest, namespace, dry_run=dry_run)

    def get(self, kind: Kind, name: str, namespace: str = "") -> KubeObject | None:
        found = super().get(kind, name, namespace)
        if kind == PODS and found is not None:
            found = {**found, "status": self.answer(found)}
        return found

    def pods(self) -> list[dict[str, Any]]:
        """Those that were created."""
        return [dict(each) for each in self.created if each["kind"] == "Pod"]
