"""What an IngressDaemonSet's status says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upgrader.contract.times import timestamp
from upgrader.in_cluster.guard.core.ingress import IngressDaemonSet
from upgrader.in_cluster.guard.core.ingress_objects import ports_left_out
from upgrader.in_cluster.guard.core.ingress_rollout import IngressDecision

__all__ = ["invalid_status", "status"]

_MOST_NODES = 5
_PORTS = (
    "several pods share a node, and only one of them can have a port of the node: the pods' ports are omitted, "
    "and their programs have to open them with SO_REUSEPORT"
)


def status(
    item: Mapping[str, Any],
    which: IngressDaemonSet,
    decision: IngressDecision,
    failures: Mapping[str, str],
    now: float,
) -> dict[str, Any]:
    """The status of the API's object, that of before if it is the same. `failures`: node → why it can't go on."""
    waits = {work.node: work.waits_for for work in decision.work if work.waits_for} | dict(failures)
    done = decision.updated == decision.ready == decision.desired and not decision.updating and not failures
    shown = [
        f"{node}: waiting for {text}" if node not in failures else f"{node}: {text}" for node, text in waits.items()
    ]
    more = f", and {len(shown) - _MOST_NODES} more nodes" if len(shown) > _MOST_NODES else ""
    message = "; ".join(sorted(shown)[:_MOST_NODES]) + more
    left_out = ports_left_out(which)
    return {
        "observedGeneration": item["metadata"].get("generation", 0),
        "desiredNodes": decision.desired,
        "updatedNodes": decision.updated,
        "readyNodes": decision.ready,
        "updatingNodes": decision.updating,
        "conditions": _conditions(
            item,
            now,
            ("Valid", True, "Valid", ""),
            ("Updated", done, *(("AllNodes", "") if done else ("Failed" if failures else "Waiting", message))),
            ("PortsLeftOut", left_out, *(("SharedNode", _PORTS) if left_out else ("NotShared", ""))),
        ),
    }


def invalid_status(item: Mapping[str, Any], reason: str, now: float) -> dict[str, Any]:
    """That of one which contradicts itself: nothing is done for it, and its counts stay."""
    before = item.get("status") or {}
    generation = item["metadata"].get("generation", 0)
    conditions = _conditions(item, now, ("Valid", False, "Contradiction", reason[:1024]))
    return {**before, "observedGeneration": generation, "conditions": conditions}


def _conditions(item: Mapping[str, Any], now: float, *states: tuple[str, bool, str, str]) -> list[Mapping[str, Any]]:
    """Others' stay as they are."""
    found = {each["type"]: each for each in (item.get("status") or {}).get("conditions") or ()}
    for kind, holds, reason, message in states:
        old = found.get(kind, {})
        since = old.get("lastTransitionTime") if old.get("status") == str(holds) else None
        found[kind] = {
            "type": kind,
            "status": str(holds),
            "reason": reason,
            "message": message,
            "lastTransitionTime": since or timestamp(now),
        }
    return list(found.values())
