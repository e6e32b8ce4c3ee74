"""What an operator does for clusters that have failed: the terminal and the page say the same."""

from __future__ import annotations

from collections.abc import Sequence

from upgrader.errors import PlanNotApproved
from upgrader.fleet.causes import code_of
from upgrader.fleet.use_cases import FleetStatus, plan_command

__all__ = ["to_do"]


def to_do(names: Sequence[str], status: FleetStatus) -> str:
    """What has failed clusters run again; "" for others, and where it would be refused."""
    each = status.state.clusters[names[0]]
    if status.changed or not each.failed or names[0] in status.decision.waits:
        return ""
    name = names[0] if len(names) == 1 else "CLUSTER"
    retry = f"upgrader fleet retry {name}"
    if code_of(each.cause) == PlanNotApproved.__name__:
        if any(status.state.clusters[other].changes for other in names):
            plan = plan_command(status.fleet, name) if len(names) == 1 else "upgrader fleet plan"
            how = f"upgrader fleet approve --changes {name} --reason TEXT"
            return f"review its new plan: {plan}; approve it: {how}; then: {retry}"
        return f"its new plan was approved: {retry}"
    again = "then resume its run" if all(status.state.clusters[other].unended for other in names) else "then"
    return f"fix this, {again}: {retry}; or leave it out: upgrader fleet skip {name} --reason TEXT"
