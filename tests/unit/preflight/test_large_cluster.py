"""What the checks before a run read of a large cluster."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.gates.builders import add_pod
from tests.unit.preflight.conftest import World
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.context import DAEMONSETS

CRITICAL = "system-node-critical"


def test_pods_of_workers_are_not_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """On 500 nodes with three critical pods each, every node is read once, and no pod but the controllers'."""
    for number in range(500):
        world.node(f"worker-{number}")
        for name in ("kube-proxy", "cilium", "csi"):
            add_pod(world.kube, name, node=f"worker-{number}", daemon=True, priority_class=CRITICAL)
    cilium = {
        "metadata": {"name": "cilium", "namespace": "kube-system"},
        "spec": {"template": {"spec": {"priorityClassName": CRITICAL}}},
        "status": {"desiredNumberScheduled": 501, "numberReady": 501},
    }
    world.kube.put(DAEMONSETS, cilium)
    lists: list[tuple[str, int]] = []
    every = world.kube.list

    def counted(kind: Any, *arguments: Any, **more: Any) -> Any:
        items = every(kind, *arguments, **more)
        lists.append((kind.plural, len(items)))
        return items

    monkeypatch.setattr(world.kube, "list", counted)
    findings = run_checks(world.context())
    assert findings == ()
    assert [count for plural, count in lists if plural == "nodes"] == [501]
    assert len(lists) < 30 and sum(count for plural, count in lists if plural != "nodes") < 50
