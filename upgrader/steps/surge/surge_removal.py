"""Drains a pool's surge nodes, and has the user's playbook remove them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from upgrader.errors import PlaybookError
from upgrader.steps.nodes.api_resources import NODES
from upgrader.steps.nodes.cordon import Cordons
from upgrader.steps.nodes.drain import Drain
from upgrader.steps.nodes.patient_requests import patiently
from upgrader.steps.surge.surge_nodes import SurgeNode, SurgeNodes
from upgrader.wait_and_retry import wait_until

__all__ = ["SurgeRemoval"]

Note = Callable[[str], None]

_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class SurgeRemoval:
    """What there is to remove is read from the nodes themselves: it may be repeated from any state."""

    nodes: SurgeNodes
    cordons: Cordons
    drain: Drain

    def telling(self, note: Note) -> SurgeRemoval:
        """The same, which tells also for what it waits while the API doesn't answer."""
        return replace(self, cordons=replace(self.cordons, note=note))

    def remove(self, note: Note) -> str:
        """Remove all of them. Returns what is left, and why; "": nothing. Raises ApiError.

        The playbook runs also where no node is left: a machine may be there that never joined.
        """
        names = [node.name for node in self.nodes.found(note)]
        blocked = self._drained(names, note)
        if blocked:
            return blocked
        playbook = self.nodes.planned.surge.remove
        note(f"ansible-playbook {playbook.name}")
        try:
            self.nodes.run(playbook, 0, names)
        except PlaybookError as error:
            there = f"; still there, drained and cordoned: {', '.join(names)}" if names else ""
            return f"{error.message}{there}"
        return self._gone(names, note)

    def _drained(self, names: Sequence[str], note: Note) -> str:
        """Cordon and drain; "" when that is done. Where one can't be drained, all of them take pods again."""
        cordons = self.telling(note).cordons
        for name in names:
            cordons.cordon(name, "drain")
            note(f"{name}: cordoned, draining it: pool {self.nodes.planned.pool.name} no longer needs it")
        blocked = self.drain.run(names, note) if names else {}
        for name in names if blocked else ():
            cordons.release(name)
        return "; ".join(f"{name}: {why}; it is uncordoned again" for name, why in blocked.items())

    def _gone(self, drained: Collection[str], note: Note) -> str:
        """Wait until no Node is left. A Node whose machine has ended, and that still exists, is deleted."""

        def missing() -> str:
            self.drain.check()
            return "; ".join(filter(None, (self._left(node, drained, note) for node in self.nodes.now())))

        seconds = self.nodes.planned.surge.deadline_seconds
        left = wait_until(
            self.drain.clock,
            missing,
            seconds=seconds,
            interval_seconds=_POLL_SECONDS,
            what="surge nodes to leave the cluster",
            note=note,
        )
        playbook = self.nodes.planned.surge.remove.name
        return f"{left} {seconds:.0f} s after {playbook} ended" if left else ""

    def _left(self, node: SurgeNode, drained: Collection[str], note: Note) -> str:
        if node.name not in drained:
            # It may have pods: without its Node, they would be started elsewhere while they run on here.
            return f"{node.name} joined in the meantime, and was not drained"
        if node.ready:
            return f"{node.name} is still Ready"
        what = f"the API to delete node {node.name}"
        patiently(self.drain.clock, lambda: self.drain.kube.delete(NODES, node.name), what=what, note=note)
        note(f"{node.name}: its kubelet has stopped; deleting its Node")
        return f"{node.name} is being deleted"
