"""Which nodes a run upgrades: each pool's, by their kubelets' versions and what they are configured with. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from upgrader.model.node_mark import NodeMark
from upgrader.model.node_settings import CONTROLLERS, WORKERS, NodePool, NodesSettings
from upgrader.model.observed import Observed, ObservedNode
from upgrader.model.plan import NodeChange, PlannedNodes
from upgrader.model.surge import surge_pool
from upgrader.model.version import KubernetesVersion

__all__ = ["NodePlanner"]


@dataclass(frozen=True)
class NodePlanner:
    """Plans the steps of all pools. `controllers` and `workers`: the inventory's; `playbooks`: the folder of the
    built-in ones.
    """

    settings: NodesSettings
    controllers: Collection[str]
    target: KubernetesVersion
    playbooks: Path
    workers: Collection[str] = frozenset()

    def plan(self, observed: Observed) -> tuple[PlannedNodes, ...]:
        """A step for each pool, also for one in which nothing changes: a run that is resumed has the same steps.

        A node that an interrupted run left in the middle is upgraded again, whatever version it has.
        """
        members = self._members(observed.nodes)
        return tuple(self._step(pool, members[pool.name], observed) for pool in self.settings.pools)

    def _members(self, nodes: Mapping[str, ObservedNode]) -> Mapping[str, list[str]]:
        """Pool → its nodes, by name; the first pool whose labels a node has is its own. Surge nodes are nobody's."""
        members: dict[str, list[str]] = {pool.name: [] for pool in self.settings.pools}
        listed = {*self.controllers, *self.workers}
        for name, node in sorted(nodes.items()):
            if not surge_pool(name, node.labels, listed):
                members[self._pool_of(name, node)].append(name)
        return members

    def _pool_of(self, name: str, node: ObservedNode) -> str:
        if name in self.controllers:
            return CONTROLLERS
        pools = (pool for pool in self.settings.pools if pool.selector)
        return next((pool.name for pool in pools if pool.selector.items() <= node.labels.items()), WORKERS)

    def _changes(self, names: list[str], observed: Observed) -> Iterator[NodeChange]:
        for name in names:
            reported, mark = observed.kubelets[name], observed.nodes[name].mark
            if mark is not None:
                before, again = self._before(mark, reported), mark.phase == "back"
                yield NodeChange(name, before, self.target, again, observed.nodes[name].configured)
            elif reported < self.target or (reported == self.target and not self._configured(observed.nodes[name])):
                yield NodeChange(name, reported, self.target, configured=observed.nodes[name].configured)

    def _configured(self, node: ObservedNode) -> bool:
        wanted = self.settings.configuration.fingerprint
        return not wanted or node.configured == wanted

    def _before(self, mark: NodeMark, reported: KubernetesVersion) -> KubernetesVersion:
        """What an unfinished node goes back to if it fails: its programs may be the new ones already.

        One that reports neither version was on its way to another target, or was upgraded by somebody else. Whether it
        goes back to that or to what its mark says is up to its restore point.
        """
        return mark.before if mark.before and reported in (mark.before, self.target) else reported

    def _step(self, pool: NodePool, names: list[str], observed: Observed) -> PlannedNodes:
        return PlannedNodes(
            pool,
            tuple(self._changes(names, observed)),
            self.target,
            self.settings.source,
            self.settings.ready_seconds,
            pool.max_unavailable.at_once(len(names)),
            self.playbooks,
            configuration=self.settings.configuration,
        )
