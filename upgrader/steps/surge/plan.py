"""The steps of a plan that add nodes to a pool before its upgrade, and remove them afterwards. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from upgrader.model.counted import counted
from upgrader.model.first_few import first_few
from upgrader.model.node_settings import NodePool
from upgrader.model.observed import Observed, ObservedNode
from upgrader.model.surge import Surge, surge_pool
from upgrader.model.version import KubernetesVersion
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.planned import PlannedStep
from upgrader.steps.playbook.plan import playbook_inputs
from upgrader.steps.step_document import NOTHING_TO_UNDO, Undo

__all__ = ["PlannedSurge", "surge_steps"]


@dataclass(frozen=True)
class PlannedSurge(PlannedStep):
    """One end of a pool's surge: the step that adds its nodes, or the one that removes them."""

    pool: NodePool
    end: bool
    """Whether it removes them."""
    target: KubernetesVersion
    """The version of kube-apiserver at that time."""
    needed: bool
    there: tuple[str, ...] = ()
    """The surge nodes of the pool that are in the cluster already, by name."""
    changes: tuple[()] = ()

    kind: ClassVar = "surge"
    disturbs: ClassVar = False

    @property
    def surge(self) -> Surge:
        """How the pool's nodes are added and removed."""
        assert self.pool.surge is not None, "these steps are only planned for pools with a surge"
        return self.pool.surge

    @property
    def name(self) -> str:
        return self.pool.surge_steps[1 if self.end else 0]

    @property
    def action(self) -> Literal["add", "remove", "unchanged"]:
        return "unchanged" if not self.needed else "remove" if self.end else "add"

    @property
    def summary(self) -> str:
        if not self.needed:
            return "nothing to change"
        there = f"; there already: {first_few(self.there)}" if self.there else ""
        if self.end:
            return f"drain and remove the surge nodes ({self.surge.remove.name}){there}"
        count = self.surge.nodes
        return f"{counted(count, 'more node')} during {self.pool.step} ({self.surge.add.name}){there}"

    @property
    def way_back(self) -> Undo:
        """What was removed isn't brought back: the nodes go back without a surge."""
        if self.end or not self.needed:
            return NOTHING_TO_UNDO
        return Undo(self.kind, text="the surge nodes are drained and removed")

    @property
    def changes_fingerprint(self) -> tuple[str, ...]:
        playbook = self.surge.remove if self.end else self.surge.add
        return (self.action, str(self.surge.nodes), playbook.name)

    def inputs(self) -> Mapping[str, str]:
        playbook = self.surge.remove if self.end else self.surge.add
        return {**playbook_inputs(playbook), "nodes": str(self.surge.nodes)}

    def once_done(self, observed: Observed) -> Observed:
        if not self.end:
            return observed
        kubelets = {name: version for name, version in observed.kubelets.items() if name not in self.there}
        nodes = {name: node for name, node in observed.nodes.items() if name not in self.there}
        return replace(observed, kubelets=kubelets, nodes=nodes)


def surge_steps(
    planned: PlannedNodes, nodes: Mapping[str, ObservedNode], listed: Collection[str]
) -> tuple[PlannedSurge, ...]:
    """The two steps around that of a pool, () for one without a surge. `listed`: the nodes of the inventory.

    They are there also where they have nothing to do: a run that is resumed has the same steps. What an earlier run has
    left is removed even where no node is upgraded.
    """
    pool, upgraded = planned.pool, bool(planned.nodes)
    if pool.surge is None:
        return ()
    there = tuple(_surge_nodes(pool.name, nodes.items(), listed))
    return (
        PlannedSurge(pool, False, planned.target, upgraded, there),
        PlannedSurge(pool, True, planned.target, upgraded or bool(there), there),
    )


def _surge_nodes(pool: str, nodes: Iterable[tuple[str, ObservedNode]], listed: Collection[str]) -> Iterator[str]:
    for name, node in sorted(nodes, key=lambda item: item[0]):
        if surge_pool(name, node.labels, listed) == pool:
            yield name
