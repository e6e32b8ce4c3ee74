"""The inputs of checks, and the ports through which they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableSet, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path

from upgrader.model.audit_log import AuditLog
from upgrader.model.cluster import Cluster, Host
from upgrader.model.etcd_client import EtcdClient
from upgrader.model.finding import Severity
from upgrader.model.gate_settings import MetricGateSettings, WorkloadGate
from upgrader.model.left_out import LeftOut
from upgrader.model.node_settings import NodesSettings
from upgrader.model.observed import Observed
from upgrader.model.rehearsal_record import KnownRehearsal
from upgrader.model.settings import RehearsalSettings
from upgrader.model.version import KubernetesVersion
from upgrader.onhost.sending.host_facts import Examined, HostFacts
from upgrader.ports import Ansible, Clock, Helm, Hosts, Kind, Kube, KubeObject, Prometheus
from upgrader.steps.plan import Plan, planned_of
from upgrader.steps.release.plan import PlannedRelease

__all__ = ["DAEMONSETS", "DEPLOYMENTS", "MIRROR", "NODES", "PODS", "SYSTEM", "PreflightContext"]

NODES = Kind("v1", "nodes", namespaced=False)
PODS = Kind("v1", "pods")
DAEMONSETS = Kind("apps/v1", "daemonsets")
DEPLOYMENTS = Kind("apps/v1", "deployments")
SYSTEM = "kube-system"
MIRROR = "kubernetes.io/config.mirror"
"""Annotation of static pods' mirror pods."""
_NODES_AT_ONCE = 500


def _nobody(host: Host, client: EtcdClient) -> Mapping[str, str]:
    return dict.fromkeys(client.servers, f"{host.name} was not examined")


@dataclass(frozen=True)
class PreflightContext:
    """The cluster, its observed state, the target version, and the ports for further reads."""

    kube: Kube
    hosts: Hosts
    helm: Helm
    clock: Clock
    cluster: Cluster
    target: KubernetesVersion
    observed: Observed
    helm_timeout_seconds: float
    """No Helm still works on a release that has been pending for longer than this."""
    plan: Plan | None = None
    """The changes of the run; None before there is a plan."""
    severities: Mapping[str, Severity] = field(default_factory=dict)
    """The operator's severities that replace the checks' own, by findings' ids."""
    unreachable: MutableSet[str] = field(default_factory=set)
    """As `ask_instance` needs it."""
    examine: Callable[[], Sequence[Examined]] = tuple
    """Collects the facts of each controller over SSH."""
    ask_etcd: Callable[[Host, EtcdClient], Mapping[str, str] | None] = _nobody
    """Asks etcd's servers from a controller: why each isn't healthy, "" for one that is. None: it lacks the files."""
    credentials_end: Callable[[], datetime | None] = lambda: None
    """When the credentials in the kubeconfig expire; None where that is unknown, or they are renewed."""
    playbooks: Ansible | None = None
    """Reads the plan's playbooks; None: there are none."""
    ssh_refuses: Callable[[Path], bool] = lambda _: False
    """Whether ssh ignores a private key of this machine, as others than its owner may open it."""
    ssh_agent: bool = False
    """Whether ssh has an agent here, whose keys it offers, too."""
    takes_backups: bool = False
    """Whether a minor upgrade begins with a backup."""
    approvals: Mapping[str, float] = field(default_factory=dict)
    """For how many seconds a step waits for a person's approval, by its name."""
    prometheus: Prometheus | None = None
    """The server that metric gates query; None: there are none."""
    metric_gates: tuple[MetricGateSettings, ...] = ()
    workload_gates: tuple[WorkloadGate, ...] = ()
    """The gates of workloads that upgrader.yaml adds to single steps."""
    values_files: Mapping[str, Path] = field(default_factory=dict)
    """Where the operator's own values of a release are, by its name."""
    node_settings: NodesSettings | None = None
    """How nodes are upgraded; None: a run leaves all of them as they are."""
    pulls_images: bool = True
    """Whether a run begins with the step `images`."""
    probes: bool = True
    """Whether the prober sends requests during a run."""
    audit_log: AuditLog | None = None
    """The one that `check` was given; None: none."""
    run_at_work: Callable[[], str] = str
    """The run of upgrader that holds the cluster's lock, with its holder and activity; "": none is known."""
    leaves_out: bool = False
    """Whether upgrader.yaml allows a run to leave out a controller that is down."""
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)
    """The controllers of the inventory that the run leaves out, by name; `cluster` is without them."""
    upgrade_to_resume: str = ""
    """The newest upgrade, where `resume` would continue it before it brings one of these back; "": there is none."""
    rehearsal_policy: RehearsalSettings = field(default_factory=RehearsalSettings)
    known_rehearsal: Callable[[], KnownRehearsal | None] | None = None
    """The newest rehearsal of the cluster folder, compared with the plan (None: there was none). Raises ValueError
    where its record can't be used. None: the plan is none of an upgrade.
    """
    _pods: dict[str, tuple[KubeObject, ...]] = field(default_factory=dict)

    @property
    def served(self) -> KubernetesVersion:
        """The version whose APIs are served after the run: the target, or the first of the minor that it emulates."""
        emulated = self.plan.emulated if self.plan else None
        return KubernetesVersion(*emulated, 0) if emulated else self.target

    @cached_property
    def controllers(self) -> frozenset[str]:
        """The names of the inventory's controllers."""
        return frozenset(host.name for host in self.cluster.controllers)

    @property
    def changing(self) -> tuple[PlannedRelease, ...]:
        """The releases that the run installs or changes."""
        return tuple(step for step in planned_of(self.plan, PlannedRelease) if step.action != "unchanged")

    def planned(self, release: str) -> str:
        """The manifest that a release will have; "" when it isn't in the plan."""
        step = self._release(release)
        return step.after if step else ""

    def installed(self, release: str) -> str:
        """The manifest that a release has before the run; "" when it isn't installed, or isn't in the plan."""
        step = self._release(release)
        return step.before if step else ""

    def _release(self, name: str) -> PlannedRelease | None:
        return next((step for step in planned_of(self.plan, PlannedRelease) if step.name == name), None)

    @cached_property
    def nodes(self) -> Mapping[str, KubeObject]:
        """All nodes by name, read once, without their images and managed fields. Raises ApiError."""
        return {node["metadata"]["name"]: _brief(node) for node in self.kube.each(NODES, at_once=_NODES_AT_ONCE)}

    @cached_property
    def examined(self) -> Mapping[str, Examined]:
        """The controllers by name, examined once. One that couldn't be is `machines.not-examined` only."""
        return {item.host.name: item for item in self.examine()}

    @property
    def facts(self) -> Mapping[str, HostFacts]:
        """The facts of each controller that could be examined, by name."""
        return {name: item.facts for name, item in self.examined.items() if item.facts is not None}

    def leaves_alone(self, name: str) -> bool:
        """Whether upgrader.yaml says that no run upgrades this node."""
        node = self.observed.nodes.get(name)
        return self.node_settings is not None and self.node_settings.leaves_alone(name, node.labels if node else {})

    def pods_on(self, node: str) -> tuple[KubeObject, ...]:
        """All pods of a node, read once. Raises ApiError."""
        if node not in self._pods:
            self._pods[node] = self.kube.list(PODS, fields=f"spec.nodeName={node}")
        return self._pods[node]


def _brief(node: KubeObject) -> KubeObject:
    """Only the fields that checks need, as there may be thousands of nodes."""
    metadata = {key: value for key, value in node["metadata"].items() if key != "managedFields"}
    status = {key: value for key, value in (node.get("status") or {}).items() if key != "images"}
    return {**node, "metadata": metadata, "status": status}
