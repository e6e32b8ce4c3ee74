"""A healthy, self-hosted cluster of one controller in memory, for tests to break."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from testkit.pki import client_certificate
from tests.unit.gates.builders import add_daemonset, add_pod
from tests.unit.recover.host_facts_json import host_facts
from upgrader.gates.kubernetes_kinds import SERVICE_CIDRS
from upgrader.model.audit_log import AuditLog
from upgrader.model.cluster import Cluster, Host
from upgrader.model.components import COMPONENTS
from upgrader.model.etcd_client import EtcdClient
from upgrader.model.finding import Finding
from upgrader.model.observed import Observed, ObservedRelease
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.onhost.sending.host_facts import Examined, HostFacts
from upgrader.ports import CommandResult
from upgrader.preflight.all_checks import Check, run_checks
from upgrader.preflight.context import DEPLOYMENTS, NODES, PODS, PreflightContext
from upgrader.steps.plan import Plan
from upgrader.steps.release.plan import PlannedRelease

V = KubernetesVersion
CONTROLLER = "controller-1"
FLAGS = ("--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16", "--service-cluster-ip-range=10.96.0.0/12")
SYSTEM = {
    "osImage": "Ubuntu 24.04.4 LTS",
    "kernelVersion": "6.8.0-31-generic",
    "containerRuntimeVersion": "containerd://2.2.1",
}
"""What a node reports of itself."""
CONTROL_PLANE = {"node-role.kubernetes.io/control-plane": ""}


@dataclass
class World:
    """The fakes behind a PreflightContext, and what was observed."""

    kube: FakeKube = field(default_factory=FakeKube)
    hosts: FakeHosts = field(default_factory=FakeHosts)
    helm: FakeHelm = field(default_factory=FakeHelm)
    clock: FakeClock = field(default_factory=FakeClock)
    cluster: Cluster = field(
        default_factory=lambda: Cluster(
            Path("/c"), Path("/c/kubeconfig"), "demo", Path("/c/hosts.yml"), (Host(CONTROLLER, "10.0.0.2"),)
        )
    )
    target: KubernetesVersion = field(default_factory=lambda: V(1, 37, 1))
    manifests: dict[str, str] = field(default_factory=dict)
    """Release → the manifest that it is to have; the others don't change."""
    before: dict[str, str] = field(default_factory=dict)
    """Release → the manifest that it has; "" where nothing is said."""
    values_files: dict[str, Path] = field(default_factory=dict)
    """Release → the file of its values."""
    emulated: tuple[int, int] | None = None
    """The minor that the planned components emulate."""
    observed: Observed = field(default_factory=lambda: Observed(V(1, 36, 3), {CONTROLLER: V(1, 36, 3)}, {}))

    audit_log: AuditLog | None = None
    facts: dict[str, HostFacts] = field(default_factory=dict)
    """Controller → what it reports of itself; one that isn't here can't be examined."""

    def controller(self, name: str = CONTROLLER, **changes: Any) -> None:
        """Let a controller, which is added where there is none of that name, be healthy but for these facts.

        Two underscores stand for a point: `etcd__server__version`.
        """
        if name not in {host.name for host in self.cluster.controllers}:
            added = Host(name, f"10.0.0.{len(self.cluster.controllers) + 2}")
            self.cluster = replace(self.cluster, controllers=(*self.cluster.controllers, added))
        names = [host.name for host in self.cluster.controllers]
        own = {
            "etcd.server.members": [{"id": each, "name": each} for each in names],
            "etcd.server.id": name,
            "certificates": [client_certificate()],
        }
        self.facts[name] = host_facts({**own, **{key.replace("__", "."): value for key, value in changes.items()}})

    def examine(self) -> tuple[Examined, ...]:
        """As over SSH."""
        return tuple(
            Examined(host, self.facts.get(host.name), "" if host.name in self.facts else "no python3")
            for host in self.cluster.controllers
        )

    etcd: dict[str, str] = field(default_factory=dict)
    """Address of etcd → why it doesn't answer from a controller, "" where it does."""
    etcd_files: bool = True
    """Whether the controllers have the files that the planned kube-apiserver asks etcd with."""
    asked: list[tuple[str, EtcdClient]] = field(default_factory=list)
    """(Controller, how it asked) for each question to etcd."""

    def ask_etcd(self, host: Host, client: EtcdClient) -> dict[str, str] | None:
        """As over SSH."""
        self.asked.append((host.name, client))
        return {url: self.etcd.get(url, "refused") for url in client.servers} if self.etcd_files else None

    def context(self) -> PreflightContext:
        """What a check is given."""
        return PreflightContext(
            self.kube,
            self.hosts,
            self.helm,
            self.clock,
            self.cluster,
            self.target,
            self.observed,
            300.0,
            Plan(self.observed.server, self.target, tuple(map(self._planned, self.manifests)), self.emulated),
            examine=self.examine,
            ask_etcd=self.ask_etcd,
            takes_backups=True,
            values_files=self.values_files,
            audit_log=self.audit_log,
        )

    def _planned(self, name: str) -> PlannedRelease:
        after = self.manifests[name]
        return PlannedRelease(
            ReleaseSpec(name, "kube-system", Path("/c")), "upgrade", "", self.before.get(name, ""), after, ()
        )

    def find(self, check: Check) -> dict[str, Finding]:
        """The findings of one check, by id."""
        findings = run_checks(self.context(), [("family", check)])
        assert len({finding.id for finding in findings}) == len(findings), "one of each in these tests"
        return {finding.id: finding for finding in findings}

    def kubelet(self, version: KubernetesVersion) -> None:
        """Let the controller's kubelet have a version."""
        self.observed = replace(self.observed, kubelets={CONTROLLER: version})

    def release(self, name: str) -> None:
        """Observe a release as FakeHelm has it now."""
        found = ObservedRelease(self.helm.history(name, "kube-system"), "")
        self.observed = replace(self.observed, releases={**self.observed.releases, name: found})

    def node(self, name: str = CONTROLLER, ready: str = "True", **meta: Any) -> dict[str, Any]:
        """Set a node, and return it."""
        node = {
            "metadata": {"name": name, "labels": CONTROL_PLANE if name == CONTROLLER else {}, **meta},
            "spec": {},
            "status": {
                "conditions": [{"type": "Ready", "status": ready, "message": "because"}],
                "allocatable": {"memory": "4Gi"},
                "nodeInfo": dict(SYSTEM),
            },
        }
        self.kube.put(NODES, node)
        return node

    def down(self, name: str) -> None:
        """Set a worker whose kubelet has been silent for too long."""
        node = self.node(name, ready="Unknown")
        node["spec"]["taints"] = [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]
        self.kube.put(NODES, node)

    def pod(
        self, name: str, labels: dict[str, str], *, ready: bool = True, flags: tuple[str, ...] = (), **meta: Any
    ) -> dict[str, Any]:
        """Set a pod on the controller, and return it; `flags` are those of a container that is named as its app."""
        container = labels["app"] if flags else "main"
        pod = {
            "metadata": {"name": name, "namespace": "kube-system", "labels": labels, **meta},
            "spec": {
                "nodeName": CONTROLLER,
                "containers": [
                    {"name": container, "args": list(flags), "resources": {"requests": {"memory": "300Mi"}}}
                ],
            },
            "status": {
                "phase": "Running",
                "hostIP": "10.0.0.2",
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
                "containerStatuses": [
                    {
                        "name": container,
                        "ready": ready,
                        "state": {"running": {"startedAt": "2025-12-01T00:00:00Z"}}
                        if ready
                        else {"waiting": {"reason": "CrashLoopBackOff"}},
                    }
                ],
            },
        }
        self.kube.put(PODS, pod)
        return pod


def deployment(name: str) -> dict[str, Any]:
    """A Deployment of one pod."""
    containers = [{"name": "main", "resources": {"requests": {"memory": "300Mi"}}}]
    return {
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"spec": {"containers": containers}},
        },
        "status": {},
    }


def workload(*containers: dict[str, Any], kind: str = "Deployment", **more: Any) -> str:
    """The manifest of a workload, whose pods have these containers."""
    spec = {"containers": list(containers), **more}
    meta = {"name": "x", "namespace": "kube-system"}
    return yaml.safe_dump(
        {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": {"template": {"spec": spec}}}
    )


@pytest.fixture
def world() -> World:
    """All is well."""
    world = World()
    world.hosts.commands["id"] = CommandResult(0, "0\n", "")
    world.hosts.commands["sh"] = CommandResult(0, "", "")
    world.node()
    world.controller()
    for name in COMPONENTS:
        world.kube.put(DEPLOYMENTS, deployment(name))
        world.pod(f"{name}-abc", {"app": name}, flags=FLAGS)
    world.kube.put(SERVICE_CIDRS, {"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/12"]}})
    add_daemonset(world.kube, "pod-checkpointer")
    add_pod(world.kube, "pod-checkpointer", name="pod-checkpointer-abc", daemon=True)
    world.kube.raw_answers["/readyz"] = "ok"
    world.kube.raw_answers["/metrics"] = ""
    for name in ("pod-checkpointer", "kube-apiserver", "kubernetes"):
        world.helm.install(name, "")
        world.release(name)
    return world
