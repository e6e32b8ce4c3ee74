"""The steps around a pool's upgrade: one adds its surge nodes and waits for them, one removes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from upgrader.errors import PlaybookError, RollbackFailed, StepFailed
from upgrader.model.counted import counted
from upgrader.model.release import RestorePoint
from upgrader.steps.nodes.node_watch import NodeWatch
from upgrader.steps.surge.plan import PlannedSurge
from upgrader.steps.surge.surge_nodes import SurgeNode, SurgeNodes
from upgrader.steps.surge.surge_removal import SurgeRemoval
from upgrader.wait_and_retry import wait_until

__all__ = ["AddSurgeStep", "RemoveSurgeStep"]

Note = Callable[[str], None]
Questions = dict[tuple[str, str], Callable[[], str]]
"""(Node, version of its kubelet) → asks what is missing until it is there to stay."""

_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class AddSurgeStep:
    """What is left to do is read from the nodes themselves: it can be repeated from any state."""

    planned: PlannedSurge
    nodes: SurgeNodes
    removal: SurgeRemoval
    watch: NodeWatch

    @property
    def name(self) -> str:
        return self.planned.name

    def summary(self) -> str:
        return self.planned.summary

    def watched(self, check: Callable[[], None]) -> AddSurgeStep:
        """The same step, with a check while it waits; it ends the step by raising StepFailed."""
        return replace(self, removal=_watched(self.removal, check))

    def capture(self) -> RestorePoint:
        return RestorePoint(surge=self.planned.pool.name)

    def apply(self, note: Note) -> None:
        """Take up what an earlier run has left, add what is missing, and wait until all are there."""
        wanted, clock, removal = self.planned.surge.nodes, self.nodes.clock, self.removal.telling(note)
        started = clock.monotonic()
        for node in self.nodes.found(note):
            if node.cordoned:  # by a removal that didn't end; a cordon of somebody else's stays
                removal.cordons.release(node.name)
        there = self.nodes.found(note)
        if sum(node.ready and not self._against(node) for node in there) < wanted:
            self._add([node.name for node in there], note)
        questions: Questions = {}

        def missing() -> str:
            self.removal.drain.check()
            return self._missing(questions)

        seconds = max(0.0, started + self.planned.surge.deadline_seconds - clock.monotonic())
        what = f"{counted(wanted, 'surge node')} of pool {self.planned.pool.name}"
        why = wait_until(clock, missing, seconds=seconds, interval_seconds=_POLL_SECONDS, what=what, note=note)
        if why:
            raise StepFailed(
                f"after {self.planned.surge.deadline_seconds:.0f} s, pool {self.planned.pool.name} doesn't have "
                f"{counted(wanted, 'surge node')} that can take pods: {why}",
                remedy=f"Check the output of {self.planned.surge.add.name}, and: kubectl get nodes -l "
                f"{self.nodes.label}",
            )
        names = ", ".join(node.name for node in self.nodes.found(note))
        note(f"surge nodes of pool {self.planned.pool.name}: {names}")

    def undo(self, point: RestorePoint, note: Note) -> None:
        left = self.removal.remove(note)
        if left:
            pool = self.planned.pool
            raise RollbackFailed(
                f"surge nodes of pool {pool.name} were not removed: {left}",
                remedy="Fix the cause, or drain and remove them yourself; then run `upgrader resume`. Their kubelets "
                "may be newer than the kube-apiserver that this run rolls back to.",
            )

    def _add(self, there: list[str], note: Note) -> None:
        playbook = self.planned.surge.add
        note(f"ansible-playbook {playbook.name}")
        try:
            self.nodes.run(playbook, self.planned.surge.nodes, there)
        except PlaybookError as error:
            raise StepFailed(error.message, remedy=error.remedy) from error

    def _missing(self, questions: Questions) -> str:
        problems, found = [], self.nodes.now()
        for node in found:
            problem = self._against(node) or self._back(node, questions)
            if problem:
                problems.append(f"{node.name}: {problem}")
        wanted = self.planned.surge.nodes
        if len(found) - len(problems) >= wanted:
            return ""
        own = self.nodes.own()
        told = [f"{len(found)} of {wanted} nodes have joined with the label {self.nodes.label}", *problems]
        told += (
            [f"{', '.join(own)}: has the surge label, but the inventory lists it among the cluster's own nodes"]
            if own
            else []
        )
        return "; ".join(told)

    def _against(self, node: SurgeNode) -> str:
        """Why it can't take the pods of the pool, whatever its conditions are; "": nothing is against it."""
        if node.cordoned:
            return "it is cordoned"
        if node.version is None:
            return "its kubelet has reported no version yet"
        if node.lacking:
            return f"it lacks the label {', '.join(node.lacking)} of its pool"
        return self.nodes.skew(node.version)

    def _back(self, node: SurgeNode, questions: Questions) -> str:
        assert node.version is not None, "a node without a reported version is handled before"
        key = (node.name, str(node.version))
        if key not in questions:
            questions[key] = self.watch.back(node.name, node.version)
        return questions[key]()


@dataclass(frozen=True)
class RemoveSurgeStep:
    """A node that can't be removed stays, and doesn't fail the run: the pool is upgraded, and rolling it back because
    of an extra node would not help. A check names such nodes, and the next run removes them.
    """

    planned: PlannedSurge
    removal: SurgeRemoval

    @property
    def name(self) -> str:
        return self.planned.name

    def summary(self) -> str:
        return self.planned.summary

    def watched(self, check: Callable[[], None]) -> RemoveSurgeStep:
        """The same step, with a check while it waits; it ends the step by raising StepFailed."""
        return replace(self, removal=_watched(self.removal, check))

    def capture(self) -> None:
        """Nothing brings them back: the pool goes back without a surge."""

    def apply(self, note: Note) -> None:
        left = self.removal.remove(note)
        if left:
            label = self.removal.nodes.label
            note(
                f"surge nodes of pool {self.planned.pool.name} are left: {left}. The next `upgrader run` removes them; "
                f"list them: kubectl get nodes -l {label}"
            )

    def undo(self, point: RestorePoint, note: Note) -> None:
        """Nothing to undo."""


def _watched(removal: SurgeRemoval, check: Callable[[], None]) -> SurgeRemoval:
    return replace(removal, drain=replace(removal.drain, check=check))
