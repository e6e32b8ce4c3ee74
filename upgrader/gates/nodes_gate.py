"""The gate of the nodes: all are Ready, with a live heartbeat, without pressure; controllers are schedulable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.errors import ApiError
from upgrader.gates.api_absence import unanswered
from upgrader.gates.node_health import NOT_SEEN, NodeHealth
from upgrader.gates.remedies import describe_node
from upgrader.model.cluster import Cluster
from upgrader.model.health_before import NONE, HealthBefore, IntOrPercent
from upgrader.model.outcome import Verdict, holds, pending, unknown

__all__ = ["NodesGate"]


@dataclass(frozen=True)
class NodesGate:
    """Every controller is healthy, and so are nearly all workers that were healthy before the run.

    A worker that reboots, or that joins, says nothing of the control plane. So a few may be unhealthy (`spare`), those
    that were unhealthy before or came later don't count, and a rollback doesn't ask for any (`controllers_only`).
    """

    health: NodeHealth
    cluster: Cluster
    health_before: HealthBefore | None = None
    """None: all workers count, those of the inventory and those of the cluster."""
    spare: IntOrPercent = NONE
    controllers_only: bool = False
    name: str = "nodes"

    def check(self) -> Verdict:
        try:
            problems = {name: problem for name, problem in self.health.controllers().items() if problem}
            if problems:
                # A kubelet that was not watched for long enough is no dead one.
                unsure = all(problem == NOT_SEEN for problem in problems.values())
                return _said(unknown if unsure else pending, problems)
            controllers = len(self.cluster.controllers)
            if self.controllers_only:
                return holds(f"{controllers} of {controllers} controllers Ready")
            workers = self._workers()
        except ApiError as error:
            return unanswered("nodes", error)
        problems = {name: problem for name, problem in workers.items() if problem}
        allowed = self.spare.of(len(workers))
        if len(problems) > allowed:
            return _said(pending, problems, f"{allowed} of {len(workers)} workers may be unhealthy" if allowed else "")
        total = controllers + len(workers)
        without = f"; unhealthy, of at most {allowed} allowed: {', '.join(problems)}" if problems else ""
        return holds(f"{total - len(problems)} of {total} nodes Ready{without}")

    def _workers(self) -> dict[str, str]:
        """The problem of each worker that counts. One that was removed since is no problem."""
        found = self.health.workers()
        if self.health_before is not None:
            return {name: found[name] for name in self.health_before.workers if name in found}
        listed = {host.name: "is not in the cluster" for host in self.cluster.workers}
        return {**listed, **found}


def _said(kind: Callable[..., Verdict], problems: dict[str, str], allowed: str = "") -> Verdict:
    first, *others = (f"node {name} {problem}" for name, problem in problems.items())
    counted = ", ".join(filter(None, [f"and {len(others)} more" if others else "", allowed]))
    more = f" ({counted})" if counted else ""
    return kind(first + more, *others, remedy=describe_node(next(iter(problems))))
