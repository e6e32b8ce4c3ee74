"""How a run upgrades nodes: the section `nodes` of `upgrader.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from upgrader.model.health_before import ONE, IntOrPercent
from upgrader.model.node_configuration import NO_CONFIGURATION, NodeConfiguration
from upgrader.model.surge import Surge
from upgrader.model.version import KubernetesVersion

__all__ = [
    "CONTROLLERS",
    "WORKERS",
    "ArchitectureSource",
    "DetachPolicy",
    "DrainPolicy",
    "LeftAlone",
    "NodePool",
    "NodeSource",
    "NodesSettings",
    "OnBlocked",
]

CONTROLLERS, WORKERS = "controllers", "workers"
"""The pools that always exist: the controllers, first and one at a time, and the workers that are in no other pool."""

OnBlocked = Literal["fail", "skip-node", "force"]
"""What happens if a drain doesn't end: the node has failed, it keeps its version, or its pods are deleted."""


@dataclass(frozen=True)
class DrainPolicy:
    """How long a drain may take, and what follows if it takes longer."""

    deadline_seconds: float = 300.0
    on_blocked: OnBlocked = "fail"


@dataclass(frozen=True)
class DetachPolicy:
    """How nodes are taken out of their load balancer before the drain, and returned afterwards."""

    grace_seconds: float = 30.0
    """How long to wait between the load balancer's answer that a node is out and the drain."""
    deadline_seconds: float = 300.0
    """How long it may take to answer, in each direction."""


@dataclass(frozen=True)
class NodePool:
    """Nodes that are upgraded in one step, a batch at a time."""

    name: str
    selector: Mapping[str, str] = field(default_factory=dict)
    """The labels of its nodes; `controllers` and `workers` have none."""
    max_unavailable: IntOrPercent = ONE
    """How many of its nodes are upgraded at once."""
    max_failed: int = 0
    """How many of its nodes may fail, and stay at their old version, without failing the run."""
    drain: DrainPolicy = DrainPolicy()
    detach: DetachPolicy | None = None
    """None: its nodes aren't taken out of a load balancer."""
    surge: Surge | None = None
    """The extra nodes that it has while it is upgraded; None: no extra nodes."""
    approval_seconds: float | None = None
    """How long to wait for a person's approval before any of its nodes is changed; None: it needs none."""

    @property
    def step(self) -> str:
        """The name of its step."""
        return f"nodes-{self.name}"

    @property
    def surge_steps(self) -> tuple[str, str]:
        """The names of the steps around it that add and remove its surge nodes; no other pool has the same."""
        return f"surge-{self.name}", f"end-surge-{self.name}"

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of all steps that it has."""
        return (self.step,) if self.surge is None else (self.surge_steps[0], self.step, self.surge_steps[1])


@dataclass(frozen=True)
class LeftAlone:
    """Nodes that no run upgrades: those with all of these labels, or those of these names."""

    where: str
    """The file and the line that say so."""
    selector: Mapping[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    def has(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node is one of them. One entry has either labels or names."""
        return name in self.names or (bool(self.selector) and self.selector.items() <= labels.items())


@dataclass(frozen=True)
class ArchitectureSource:
    """What differs for nodes of one architecture; path and address: "" if they have the same as all others."""

    path: str = ""
    url: str = ""
    sha256: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeSource:
    """Where nodes get their programs from. `path` and `url` may contain `{version}`."""

    kind: Literal["packages", "folder", "url"]
    path: str = ""
    """The folder on this machine, absolute; only of `folder`."""
    url: str = ""
    sha256: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Version → program → SHA-256; only of `folder` and `url`."""
    architectures: Mapping[str, ArchitectureSource] = field(default_factory=dict)
    """By name, as a Node has it: `arm64`."""

    def of(self, architecture: str) -> NodeSource:
        """What a node of that architecture has."""
        own = self.architectures.get(architecture)
        if own is None:
            return replace(self, architectures={})
        return NodeSource(self.kind, own.path or self.path, own.url or self.url, own.sha256)

    def knows(self, version: KubernetesVersion) -> bool:
        """Whether it has a kubelet of that version and its SHA-256; programs without a SHA-256 are left unchanged."""
        return self.kind == "packages" or "kubelet" in self.sha256.get(str(version), {})

    def at(self, version: KubernetesVersion) -> Mapping[str, Any]:
        """The variables of the playbooks, which know each node's architecture."""
        if self.kind == "packages":
            return {"kind": self.kind}
        key, place = ("path", self.path) if self.kind == "folder" else ("url", self.url)
        sums = dict(self.sha256.get(str(version), {}))
        made = {"kind": self.kind, key: place.replace("{version}", str(version)), "sha256": sums}
        own = {name: self.of(name).at(version) for name in self.architectures}
        return {**made, "architectures": own} if own else made


@dataclass(frozen=True)
class NodesSettings:
    """The pools in the order of their steps: `controllers` first, `workers` last."""

    source: NodeSource
    pools: tuple[NodePool, ...]
    ready_seconds: float = 300.0
    """How long a node may take to be Ready with its new kubelet."""
    configuration: NodeConfiguration = NO_CONFIGURATION
    left_alone: tuple[LeftAlone, ...] = ()

    def leaves_alone(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether no run upgrades that node, whatever pool it would be in."""
        return any(each.has(name, labels) for each in self.left_alone)

    def selected_by(self, labels: Mapping[str, str]) -> NodePool | None:
        """The first pool whose labels a worker has; None if there is none: it is in `workers` then."""
        return next((pool for pool in self.pools if pool.selector and pool.selector.items() <= labels.items()), None)
