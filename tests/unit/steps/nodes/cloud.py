"""A cloud in memory: the user's two playbooks of a surge, and the machines that they make and remove."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from testkit.fakes.clock import FakeClock
from tests.unit.steps.nodes.fleet import NEW, Dying, Killed
from upgrader.errors import PlaybookError
from upgrader.gates.kubernetes_kinds import LEASES, NODES, PODS
from upgrader.gates.node_return import NodeReturn
from upgrader.model.node_settings import DrainPolicy, NodePool
from upgrader.model.release import RestorePoint
from upgrader.model.surge import SURGE, Surge
from upgrader.model.version import KubernetesVersion
from upgrader.ports import PlaybookResult
from upgrader.steps.nodes.cordon import Cordons
from upgrader.steps.nodes.drain import Drain
from upgrader.steps.surge.plan import PlannedSurge
from upgrader.steps.surge.step import AddSurgeStep, RemoveSurgeStep
from upgrader.steps.surge.surge_nodes import SurgeNodes
from upgrader.steps.surge.surge_removal import SurgeRemoval

__all__ = ["Cloud"]

_SURGE = Surge(1, Path("/c/add-nodes.yml"), Path("/c/remove-nodes.yml"), 900.0)


class Cloud:
    """Makes machines that join at once, and what the steps of a surge need."""

    def __init__(
        self, nodes: int = 1, *, listed: tuple[str, ...] = ("worker-1",), drain: DrainPolicy | None = None
    ) -> None:
        self.kube = Dying()
        self.kube.silent_kubelets = set()
        self.clock = FakeClock()
        self.pool = NodePool(
            "gpu",
            {"pool": "gpu"},
            drain=drain or DrainPolicy(60.0),
            surge=Surge(nodes, _SURGE.add, _SURGE.remove, _SURGE.deadline_seconds),
        )
        self.listed = listed
        self.machines: set[str] = set()
        """Those that exist, whether they have joined or not."""
        self.most_machines = 0
        self.ran: list[tuple[str, int, list[str]]] = []
        """(Playbook, how many nodes it was told there are to be, and which are there) of each run."""
        self.variables: Mapping[str, Any] = {}
        self.fails: set[str] = set()
        """Playbooks that fail."""
        self.joins = True
        """Whether a machine becomes a node."""
        self.keeps_nodes = False
        """Whether `remove` leaves the Nodes of its machines, as `kubeadm reset` does."""
        self.keeps_machines = False
        """Whether `remove` does nothing at all."""
        self.joins_late = ""
        """A machine that joins, and isn't Ready, when `remove` has looked for what there is to end."""
        self.version: KubernetesVersion = NEW
        self.labels: Mapping[str, str] | None = None
        """What machines are labelled with, whatever the playbook is told."""
        self.notes: list[str] = []

    def join(self, name: str, labels: Mapping[str, str], *, ready: bool = True, cordoned: bool = False) -> None:
        """Have a machine become a node, or report again."""
        node: dict[str, Any] = {"metadata": {"name": name, "labels": dict(labels)}, "spec": {}}
        if cordoned:
            node["spec"] = {"unschedulable": True}
        condition = {"type": "Ready", "status": "True" if ready else "Unknown", "message": "its kubelet has stopped"}
        node["status"] = {"nodeInfo": {"kubeletVersion": str(self.version)}, "conditions": [condition]}
        self.kube.put(NODES, node)
        if (LEASES.api_version, LEASES.plural, "kube-node-lease", name) not in self.kube._objects:
            lease = {"metadata": {"name": name}, "spec": {"renewTime": "2026-01-01T00:00:00+00:00"}}
            self.kube.put(LEASES, lease, "kube-node-lease")

    def add_pod(self, node: str, *, owner: str = "ReplicaSet") -> None:
        """A pod of a workload on a node."""
        owners = [{"kind": owner, "name": "its", "controller": True}] if owner else []
        meta = {"name": f"web-{node}", "namespace": "default", "labels": {"app": "web"}, "ownerReferences": owners}
        self.kube.put(PODS, {"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": "Running"}})

    @property
    def planned(self) -> tuple[PlannedSurge, PlannedSurge]:
        """Both steps as planned."""
        return PlannedSurge(self.pool, False, NEW, True), PlannedSurge(self.pool, True, NEW, True)

    def add(self) -> AddSurgeStep:
        """The step that adds them."""
        removal = self._removal(self.planned[0])
        return AddSurgeStep(self.planned[0], removal.nodes, removal, NodeReturn(self.kube))

    def remove(self) -> RemoveSurgeStep:
        """The step that removes them."""
        return RemoveSurgeStep(self.planned[1], self._removal(self.planned[1]))

    def run_add(self) -> None:
        """Carry it out."""
        self.add().apply(self.notes.append)

    def run_remove(self) -> None:
        """Carry it out."""
        self.remove().apply(self.notes.append)

    def undo(self) -> None:
        """Undo the step that adds them."""
        self.add().undo(RestorePoint(surge="gpu"), self.notes.append)

    def dies(self, lives: int, work: Callable[[], None]) -> bool:
        """Whether a process that does this dies at its nth request."""
        self.kube.lives = lives
        try:
            work()
        except Killed:
            return True
        finally:
            self.kube.lives = -1
        return False

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
        """`ports.Playbooks`: what a user's playbooks do. The process may die before, within and after it."""
        self.kube._check(f"ansible-playbook {playbook.name}")
        wanted = int(variables["surge_nodes"])
        self.ran.append((playbook.name, wanted, list(variables["surge_names"])))
        self.variables = variables
        if wanted:
            labels = self.labels if self.labels is not None else variables["surge_labels"]
            for name in (f"{variables['surge_pool']}-surge-{number}" for number in range(1, wanted + 1)):
                self.machines.add(name)
                self.most_machines = max(self.most_machines, len(self.machines))
                self.kube._check("a machine was made")
                if self.joins:
                    self.join(name, labels)
        elif not self.keeps_machines:
            for name in sorted(self.machines):
                self._end(name)
            if self.joins_late:
                self.join(self.joins_late, variables["surge_labels"], ready=False)
        self.kube._check("Ansible's end")
        if playbook.name in self.fails:
            raise PlaybookError(f"playbook {playbook.name} failed on 1 of the hosts: quota exceeded")
        return PlaybookResult({}, {})

    def _end(self, name: str) -> None:
        left = [key[3] for key, pod in self.kube._objects.items() if key[1] == "pods" and _on(pod) == name]
        assert not left, f"a machine with pods on it was removed: {left}"
        self.machines.discard(name)
        key = ("v1", "nodes", "", name)
        if key in self.kube._objects:  # as the node controller has it, when the kubelet's heartbeats end
            self.kube._objects[key]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
        self.kube._check("a machine was removed")
        if not self.keeps_nodes:
            self.kube._objects.pop(key, None)

    def nodes(self) -> dict[str, str]:
        """Surge node → what is left of a removal that didn't end."""
        found = {key[3]: node for key, node in self.kube._objects.items() if key[1] == "nodes"}
        return {
            name: " ".join(
                [
                    *(["cordoned"] if (node.get("spec") or {}).get("unschedulable") else []),
                    *(["marked"] if node["metadata"].get("annotations") else []),
                ]
            )
            for name, node in found.items()
            if SURGE in node["metadata"]["labels"] and name not in self.listed
        }

    def _removal(self, planned: PlannedSurge) -> SurgeRemoval:
        nodes = SurgeNodes(planned, self.kube, self.clock, self, Path("/hosts.yml"), self.listed)
        watch = NodeReturn(self.kube)
        drain = Drain(self.kube, self.clock, self.pool.drain, (), watch.problem, check=lambda: None)
        return SurgeRemoval(nodes, Cordons(self.kube, self.clock), drain)


def _on(pod: Mapping[str, Any]) -> str:
    return str(pod["spec"]["nodeName"])
