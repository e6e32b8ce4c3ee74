"""The step that upgrades the nodes of one pool, a batch at a time, and puts them back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from upgrader.errors import RollbackFailed, StepFailed
from upgrader.model.release import NodeBefore, RestorePoint
from upgrader.pipeline import Inspection
from upgrader.steps.nodes.batch import Batch
from upgrader.steps.nodes.decision import batches
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.step_document import NodeChange

__all__ = ["NodesInspector", "NodesStep"]

Note = Callable[[str], None]


@dataclass(frozen=True)
class NodesStep:
    """What is left to do is read from the nodes themselves: it can be repeated from any state."""

    planned: PlannedNodes
    batch: Batch
    hold_gates: Callable[[], None]
    """Waits until the cluster is healthy between two batches. Raises StepFailed."""

    @property
    def name(self) -> str:
        return self.planned.name

    def summary(self) -> str:
        return self.planned.summary

    def watched(self, check: Callable[[], None]) -> NodesStep:
        """The same step, with a check while it waits; it ends the step by raising StepFailed."""
        batch = self.batch
        watched = replace(
            batch, drain=replace(batch.drain, check=check), detaching=replace(batch.detaching, check=check)
        )
        return replace(self, batch=watched)

    def capture(self) -> RestorePoint:
        nodes = (NodeBefore(item.node, item.before, item.configured) for item in self.planned.nodes)
        return RestorePoint(nodes=tuple(nodes), configuration=self.planned.configuration.fingerprint)

    def apply(self, note: Note) -> None:
        failed: dict[str, str] = {}
        batch = self.batch.telling(note)
        left, begun = self._left(batch)
        done = len(left) < len(self.planned.nodes)
        for group in batches(left, self.planned.at_once):
            # No gate holds while a node of an interrupted batch is cordoned: that one is completed first.
            if done and not any(item.node in begun for item in group):
                self.hold_gates()
            done = True
            failed |= batch.upgrade(group, note)
            self._refuse(failed)
        for name, why in failed.items():
            note(
                f"{name}: it failed, and keeps its old version (allowed by maxFailed: "
                f"{self.planned.pool.max_failed}): {why}"
            )

    def undo(self, point: RestorePoint, note: Note) -> None:
        before = {item.node: item for item in point.nodes}
        # The one of the run that is undone, whatever upgrader.yaml says by now.
        playbooks = replace(self.batch.playbooks, fingerprint=point.configuration)
        batch = replace(self.batch.telling(note), playbooks=playbooks)
        failed: dict[str, str] = {}
        for group in batches(tuple(reversed(before)), self.planned.at_once):
            failed |= batch.put_back({name: before[name] for name in group}, note)
        if failed:
            raise RollbackFailed(
                f"{len(failed)} of {len(before)} nodes were not restored:\n{_listed(failed)}",
                remedy="Repair these nodes (see journalctl -u kubelet there), then run `upgrader resume`. If a node's "
                f"machine is permanently gone, run `kubectl delete node {next(iter(failed))}`, then `upgrader resume`.",
            )

    def _left(self, batch: Batch) -> tuple[list[NodeChange], Collection[str]]:
        """The nodes with something left to do, those first that an interruption left in the middle; and their names."""
        left, begun = [], set()
        for item in self.planned.nodes:
            now = batch.cordons.read(item.node)
            if now is None or batch.left(now, item) != "nothing":
                left.append(item)
            if now is not None and now.mark is not None:
                begun.add(item.node)
        return sorted(left, key=lambda item: item.node not in begun), begun

    def _refuse(self, failed: Mapping[str, str]) -> None:
        pool = self.planned.pool
        if len(failed) > pool.max_failed:
            raise StepFailed(
                f"{len(failed)} of {len(self.planned.nodes)} nodes of pool {pool.name} failed (maxFailed: "
                f"{pool.max_failed}):\n"
                f"{_listed(failed)}",
                remedy=f"Fix what blocks the upgrade of {', '.join(failed)}, then run the same command again; or see "
                "`maxFailed` and `drain.onBlocked` of `nodes.pools` in upgrader.yaml. If a node's machine is "
                f"permanently gone, run `kubectl delete node {next(iter(failed))}`.",
            )


@dataclass(frozen=True)
class NodesInspector:
    """How far an interrupted step got, by its nodes' marks and versions."""

    step: NodesStep

    def await_idle(self, point: RestorePoint | None, note: Note) -> None:
        """Ansible ends with the process that started it; what it left on a node, the next playbook waits for there."""

    def inspect(self, point: RestorePoint | None) -> Inspection:
        found = []
        for item in self.step.planned.nodes:
            now = self.step.batch.cordons.read(item.node)
            if now is not None and self.step.batch.left(now, item) != "nothing":
                found.append(f"{item.node} {now.mark.phase if now.mark else 'pending'}")
        total = len(self.step.planned.nodes)
        if not found:
            return Inspection(True, f"all {total} nodes are upgraded")
        return Inspection(False, f"{total - len(found)} of {total} nodes are upgraded; left: {', '.join(found)}")


def _listed(failed: Mapping[str, str]) -> str:
    return "\n".join(f"  {name}: {why}" for name, why in failed.items())
