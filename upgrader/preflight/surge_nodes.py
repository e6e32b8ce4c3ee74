"""No surge nodes of an earlier run are left, and the inventory lists no node that is labelled as a surge node."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.surge import SURGE, surge_pool
from upgrader.preflight.context import PreflightContext
from upgrader.steps.plan import planned_of
from upgrader.steps.surge.plan import PlannedSurge

__all__ = ["check_surge_nodes", "surge_nodes"]


def surge_nodes(context: PreflightContext) -> dict[str, list[str]]:
    """Pool → its surge nodes that are in the cluster."""
    listed = _listed(context)
    found: dict[str, list[str]] = {}
    for name, node in sorted(context.nodes.items()):
        pool = surge_pool(name, node["metadata"].get("labels") or {}, listed)
        if pool:
            found.setdefault(pool, []).append(name)
    return found


def check_surge_nodes(context: PreflightContext) -> Iterator[Finding]:
    """Nothing where no node has the label."""
    removing = {step.pool.name for step in planned_of(context.plan, PlannedSurge) if step.end and step.needed}
    for pool, names in surge_nodes(context).items():
        taken = pool in removing
        yield Finding(
            "nodes.surge-left",
            "info" if taken else "warning",
            f"{first_few(names)}: a surge node of the pool {pool}, left by an earlier run",
            "This run uses it for the pool, and removes it at the end."
            if taken
            else "Runs don't upgrade it, and this one doesn't remove it.",
            "Leave it as it is."
            if taken
            else f"kubectl drain {names[0]}, and remove it; or add `surge` to the pool {pool} in upgrader.yaml: the "
            f"next run then removes it. To keep it: kubectl label node {names[0]} {SURGE}-, and add it to the "
            "inventory.",
        )
    labelled = [name for name in sorted(_listed(context)) if _has_label(context, name)]
    if labelled:
        yield Finding(
            "nodes.surge-listed",
            "warning",
            f"{first_few(labelled)}: labelled as a surge node ({SURGE}), but the inventory lists it",
            "It is treated as a permanent node: it is upgraded, and doesn't count as a surge node.",
            f"kubectl label node {labelled[0]} {SURGE}-; or remove it from the groups `controllers` and `workers` of "
            "the inventory, if it is a surge node.",
        )


def _listed(context: PreflightContext) -> set[str]:
    return {host.name for host in (*context.cluster.controllers, *context.cluster.workers)}


def _has_label(context: PreflightContext, name: str) -> bool:
    node = context.nodes.get(name)
    return node is not None and SURGE in (node["metadata"].get("labels") or {})
