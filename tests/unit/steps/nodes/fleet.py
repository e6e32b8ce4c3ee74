"""Nodes in memory: what the built-in playbooks do to them, and a process that dies at any request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.contract.detach import ATTACHED, DETACHED, DETACHMENT
from upgrader.errors import PlaybookError
from upgrader.gates.kubernetes_kinds import LEASES, NODES, PODS
from upgrader.gates.node_return import NodeReturn
from upgrader.model.node_settings import DetachPolicy, DrainPolicy, NodePool, NodeSource
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind, PlaybookResult
from upgrader.steps.nodes.batch import Batch
from upgrader.steps.nodes.cordon import Cordons
from upgrader.steps.nodes.detaching import Detaching
from upgrader.steps.nodes.drain import Drain
from upgrader.steps.nodes.node_playbooks import NodePlaybooks
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.nodes.step import NodesStep
from upgrader.steps.step_document import NodeChange

__all__ = ["BUDGETS", "NEW", "OLD", "Fleet", "Killed"]

OLD, NEW = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
BUDGETS = Kind("policy/v1", "poddisruptionbudgets")
SOURCE = NodeSource("folder", "/binaries/{version}", sha256={str(NEW): {"kubelet": "a" * 64}})


class Killed(BaseException):
    """The process dies, as by `kill -9`."""


class Dying(FakeKube):
    """An API server whose client dies before its nth request from now on."""

    def __init__(self) -> None:
        super().__init__()
        self.lives = -1
        self.watchers: list[Callable[[], object]] = []
        """Called at each request."""

    def _check(self, what: str) -> None:
        if self.lives == 0:
            raise Killed
        self.lives -= 1
        for each in self.watchers:
            each()
        super()._check(what)


class Fleet:
    """Some workers with a pod each, and what a step needs to upgrade them."""

    def __init__(self, *names: str, controller: str = "") -> None:
        self.kube = Dying()
        self.kube.silent_kubelets = set()
        self.clock = FakeClock()
        self.names = names
        self.controllers = {controller} - {""}
        self.ran: list[str] = []
        """Each playbook and the nodes that it ran on."""
        self.fails: dict[str, str] = {}
        """Node → what fails when its programs are swapped."""
        self.irreparable: set[str] = set()
        """Nodes on which the old programs can't be put back."""
        self.never_ready: set[str] = set()
        """Nodes that aren't Ready with the new kubelet."""
        self.full: set[str] = set()
        """Nodes whose disk is full, whichever kubelet they have."""
        self.kept = dict.fromkeys(names, OLD)
        """Node → the version that its restore point has."""
        self.detach: DetachPolicy | None = None
        """How they are taken out of their load balancer."""
        self.notes: list[str] = []
        self.most_cordoned = 0
        for name in names:
            self.set_node(name, OLD)
            self.kube.put(
                LEASES,
                {"metadata": {"name": name}, "spec": {"renewTime": "2026-01-01T00:00:00+00:00"}},
                "kube-node-lease",
            )
            self.add_pod(f"web-{name}", name, owner="ReplicaSet")
        self.kube.watchers.append(self._count)

    def set_node(self, name: str, version: KubernetesVersion, *, ready: bool = True) -> None:
        """Have its kubelet report this version; all else stays."""
        node: dict[str, Any] = dict(self.kube._objects.get(("v1", "nodes", "", name)) or {"metadata": {"name": name}})
        condition = {"type": "Ready", "status": "True" if ready else "False", "message": "kubelet says no"}
        pressure = {"type": "DiskPressure", "status": "True" if name in self.full else "False"}
        node["status"] = {"nodeInfo": {"kubeletVersion": str(version)}, "conditions": [condition, pressure]}
        self.kube.put(NODES, node)

    def add_pod(
        self,
        name: str,
        node: str,
        *,
        owner: str = "",
        namespace: str = "default",
        spec: Mapping[str, Any] | None = None,
        phase: str = "Running",
        **meta: Any,
    ) -> None:
        """A pod on a node; `owner` is the kind of its controller."""
        owners = [{"kind": owner, "name": "its", "controller": True}] if owner else []
        self.kube.put(
            PODS,
            {
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "labels": {"app": "web"},
                    "ownerReferences": owners,
                    **meta,
                },
                "spec": {"nodeName": node, **(spec or {})},
                "status": {"phase": phase},
            },
        )

    def add_budget(self, allowed: int = 0, name: str = "web") -> None:
        """A budget over all pods."""
        spec = {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}
        status = {"disruptionsAllowed": allowed, "currentHealthy": 3, "expectedPods": 3}
        self.kube.put(BUDGETS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": status})

    def step(
        self, *, at_once: int = 1, max_failed: int = 0, drain: DrainPolicy | None = None, **changes: Any
    ) -> NodesStep:
        """The step that upgrades all of them."""
        pool = NodePool("workers", max_failed=max_failed, drain=drain or DrainPolicy(), detach=self.detach)
        nodes = tuple(NodeChange(name, OLD, NEW) for name in self.names)
        planned = PlannedNodes(pool, nodes, NEW, SOURCE, 300.0, at_once, Path("/playbooks"))
        watch = NodeReturn(self.kube)
        cordons = Cordons(self.kube, self.clock)
        batch = Batch(
            cordons=cordons,
            detaching=Detaching(self.kube, self.clock, cordons, pool.detach, check=lambda: None),
            drain=Drain(self.kube, self.clock, pool.drain, self.controllers, watch.problem, check=lambda: None),
            playbooks=NodePlaybooks(self, Path("/playbooks"), Path("/hosts.yml"), SOURCE, NEW),
            watch=watch,
            log=lambda name: "E0101 no such flag",
            clock=self.clock,
            ready_seconds=60.0,
        )
        return replace(NodesStep(planned, batch, lambda: self.notes.append("gates")), **changes)

    def run(
        self,
        playbook: Path,
        *,
        inventory: Path,
        variables: Mapping[str, Any],
        limit: str = "",
        timeout_seconds: float,
        check: bool = False,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> PlaybookResult:
        """`ports.Playbooks`: what the built-in playbooks do."""
        self.kube._check(f"ansible-playbook {playbook.name}")
        self.ran.append(f"{playbook.name} {limit}")
        problems: dict[str, str] = {}
        for name in limit.split(","):
            if playbook.name == "upgrade-node.yml":
                assert self.node(name)["spec"].get("unschedulable"), "only a cordoned node is changed"
                assert not self.detach or self.is_out(name), "only a node that is out of the load balancer is changed"
                problems |= {name: self.fails[name]} if name in self.fails else {}
                if name not in self.fails:
                    self.set_node(name, NEW, ready=name not in self.never_ready)
            elif playbook.name == "restore-node.yml":
                problems |= {name: "disk full"} if name in self.irreparable else {}
                if name not in self.irreparable:
                    self.set_node(name, self.kept[name])
        # The process may die when Ansible has done its work, and before anybody knows.
        self.kube._check("Ansible's end")
        if problems:
            raise PlaybookError(f"playbook {playbook.name} failed: {problems}", hosts=problems)
        return PlaybookResult({}, {})

    def dies(self, lives: int, at_once: int) -> bool:
        """Whether the process that applies the step dies at its nth request."""
        self.kube.lives = lives
        try:
            self.step(at_once=at_once).apply(self.notes.append)
        except Killed:
            return True
        finally:
            self.kube.lives = -1
        return False

    def node(self, name: str) -> Mapping[str, Any]:
        """As the API has it, without a request."""
        return self.kube._objects["v1", "nodes", "", name]

    def is_out(self, name: str) -> bool:
        """Whether somebody wants it out of the load balancer, and it is."""
        return {DETACHMENT, DETACHED} <= (self.node(name)["metadata"].get("annotations") or {}).keys()

    def annotate(self, name: str, **changes: str | None) -> None:
        """Without a request: `asked`, `out`, `back`; None takes one off."""
        node = dict(self.node(name))
        keys = {"asked": DETACHMENT, "out": DETACHED, "back": ATTACHED}
        found = {**(node["metadata"].get("annotations") or {}), **{keys[key]: text for key, text in changes.items()}}
        kept = {key: text for key, text in found.items() if text is not None}
        if kept != (node["metadata"].get("annotations") or {}):
            self.kube.put(NODES, {**node, "metadata": {**node["metadata"], "annotations": kept}})

    def state(self) -> dict[str, str]:
        """Node → its kubelet's version, and what is left of its upgrade."""
        return {name: self._state(name) for name in self.names}

    def _state(self, name: str) -> str:
        node = self.node(name)
        left = ["cordoned"] if (node.get("spec") or {}).get("unschedulable") else []
        left += ["marked"] if (node["metadata"].get("annotations") or {}).keys() - {ATTACHED} else []
        return " ".join([node["status"]["nodeInfo"]["kubeletVersion"], *left])

    def pods(self) -> set[str]:
        """The names of the pods that are left."""
        return {key[3] for key in self.kube._objects if key[1] == "pods"}

    def _count(self) -> None:
        cordoned = [name for name in self.names if (self.node(name).get("spec") or {}).get("unschedulable")]
        self.most_cordoned = max(self.most_cordoned, len(cordoned))
