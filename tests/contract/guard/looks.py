"""What guard has looked at, by its own counters: so that a test knows that nothing happened, instead of hoping so."""

from __future__ import annotations

import re
import uuid

from testkit.guard_process import GuardProcess
from testkit.lab_cluster import until
from tests.contract.checking import merge
from tests.contract.guard.zones import Zones
from upgrader.adapters.kube import KubeAdapter

__all__ = ["counted", "look_again"]

_LOOKS = 'rollout_operator_group_reconcile_duration_seconds_count{{rollout_group="{}"}}'


def counted(guard: GuardProcess, name: str) -> float:
    """The value of one of its metrics; 0 before it is there."""
    found = re.search(rf"^{re.escape(name)} (\S+)$", guard.get("/metrics")[1], re.MULTILINE)
    return float(found[1]) if found else 0.0


def look_again(guard: GuardProcess, kube: KubeAdapter, group: Zones) -> None:
    """Have a group looked at from beginning to end, and done what is due: all that the group shows now was seen.

    Twice, as a look may be under way that began before.
    """
    metric = _LOOKS.format(group.group)
    for _ in range(2):
        before = counted(guard, metric)
        change = {"metadata": {"annotations": {"look": uuid.uuid4().hex}}}
        merge(kube, f"/apis/apps/v1/namespaces/shop/statefulsets/{group.names[0]}", change)

        def looked(before: float = before) -> bool:
            return counted(guard, metric) > before

        until("guard to look again", looked, timeout_seconds=120, interval_seconds=0.05)
