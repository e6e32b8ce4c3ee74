"""The nodes of a pool that a run upgrades, by their kubelets' versions and what they are configured with. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from upgrader.engine.execution.input_files import canonical, file_digests
from upgrader.model.counted import counted
from upgrader.model.first_few import first_few
from upgrader.model.node_configuration import NO_CONFIGURATION, NodeConfiguration
from upgrader.model.node_mark import NodeMark
from upgrader.model.node_settings import CONTROLLERS, WORKERS, NodePool, NodeSource, NodesSettings
from upgrader.model.observed import Observed, ObservedNode
from upgrader.model.surge import surge_pool
from upgrader.model.version import KubernetesVersion
from upgrader.steps.planned import PlannedStep
from upgrader.steps.step_document import NOTHING_TO_UNDO, HostChanges, NodeChange, ObjectChange, StepDocument, Undo

__all__ = ["NodePlanner", "PlannedNodes"]

_SHOWN = 10
"""How many nodes that are left alone are named: an autoscaler may have made hundreds."""


@dataclass(frozen=True)
class PlannedNodes(PlannedStep):
    """The nodes of one pool that change."""

    pool: NodePool
    nodes: tuple[NodeChange, ...]
    target: KubernetesVersion
    source: NodeSource
    ready_seconds: float
    at_once: int
    """How many are upgraded at once."""
    playbooks: Path
    """The folder of the playbooks that change them."""
    changes: tuple[ObjectChange, ...] = ()
    configuration: NodeConfiguration = NO_CONFIGURATION
    """What the nodes get beside their programs."""
    left_alone: tuple[tuple[str, KubernetesVersion], ...] = ()
    """The workers that no run upgrades, with their kubelets; only of `workers`. The plan's digest doesn't have them: an
    autoscaler may add one at any time, and the run is the same.
    """

    kind: ClassVar = "nodes"

    @property
    def name(self) -> str:
        return self.pool.step

    @property
    def action(self) -> Literal["upgrade", "unchanged"]:
        return "upgrade" if self.nodes else "unchanged"

    @property
    def summary(self) -> str:
        return "; ".join([self._upgraded, *self._left_alone()])

    @property
    def _upgraded(self) -> str:
        if not self.nodes:
            return "nothing to change"
        before = sorted({node.before for node in self.nodes} - {self.target})
        parts = [f"{', '.join(map(str, before))} → {self.target}"] if before else []
        parts += [str(self.configuration)] if self.configuration.fingerprint else []
        count = len(self.nodes)
        text = f"{counted(count, 'node')}: {'; '.join(parts) or self.target}"
        return f"{text}; out of the load balancer during its upgrade" if self.pool.detach else text

    def _left_alone(self) -> Iterator[str]:
        versions: dict[KubernetesVersion, list[str]] = {}
        for name, version in self.left_alone:
            versions.setdefault(version, []).append(name)
        for version, names in sorted(versions.items()):
            yield f"left alone: {first_few(names, _SHOWN)}, kubelet {version}"

    @property
    def way_back(self) -> Undo:
        return Undo(self.kind, text="each node returns to its previous version") if self.nodes else NOTHING_TO_UNDO

    @property
    def described(self) -> str:
        return f"nodes {self.name}: {', '.join(map(str, self.nodes)) or 'none'}"

    @property
    def fingerprint(self) -> tuple[str, ...]:
        return (*map(str, self.nodes), self.configuration.fingerprint)

    @property
    def changes_fingerprint(self) -> tuple[str, ...]:
        versions = sorted({f"{node.before} → {node.after}" for node in self.nodes})
        return (*versions, self.configuration.fingerprint)

    def inputs(self) -> Mapping[str, str]:
        parts = {**file_digests(self.playbooks, "playbooks"), "source": canonical(self.source.at(self.target))}
        got = self.configuration.fingerprint
        return {**parts, "configuration": got} if got else parts

    def once_done(self, observed: Observed) -> Observed:
        kubelets = {**observed.kubelets, **{node.node: node.after for node in self.nodes}}
        got = self.configuration.fingerprint
        changed = {node.node for node in self.nodes} if got else ()
        nodes = {
            name: replace(node, configured=got) if name in changed else node for name, node in observed.nodes.items()
        }
        return replace(observed, kubelets=kubelets, nodes=nodes)

    def document(self, usual_seconds: float | None, hosts: HostChanges | None = None) -> StepDocument:
        return replace(super().document(usual_seconds, hosts), nodes=self.nodes)


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
        alone = self._alone(observed.nodes)
        members = self._members({name: node for name, node in observed.nodes.items() if name not in alone})
        kubelets = tuple((name, observed.kubelets[name]) for name in alone)
        return tuple(
            replace(self._step(pool, members[pool.name], observed), left_alone=kubelets if pool.name == WORKERS else ())
            for pool in self.settings.pools
        )

    def _alone(self, nodes: Mapping[str, ObservedNode]) -> tuple[str, ...]:
        """Also one that is a controller, or that a pool selects: a check refuses that, and nothing has touched it."""
        return tuple(name for name, node in sorted(nodes.items()) if self.settings.leaves_alone(name, node.labels))

    def _members(self, nodes: Mapping[str, ObservedNode]) -> Mapping[str, list[str]]:
        """Pool → its nodes, by name; the first pool whose labels a node has is its own. Surge nodes are in no pool."""
        members: dict[str, list[str]] = {pool.name: [] for pool in self.settings.pools}
        listed = {*self.controllers, *self.workers}
        for name, node in sorted(nodes.items()):
            if not surge_pool(name, node.labels, listed):
                members[self._pool_of(name, node)].append(name)
        return members

    def _pool_of(self, name: str, node: ObservedNode) -> str:
        if name in self.controllers:
            return CONTROLLERS
        pool = self.settings.selected_by(node.labels)
        return pool.name if pool else WORKERS

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
