"""A cordoned node is always named."""

from __future__ import annotations

from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import add_node
from upgrader.engine.execution.cordoned_nodes import cordoned


def test_cordoned_nodes_are_named() -> None:
    """Each cordoned node is named, with what to do; an unreachable API names none."""
    kube = FakeKube()
    add_node(kube, "worker-1")
    add_node(kube, "worker-2", cordoned=True)
    assert cordoned(kube) == ("node worker-2 is still cordoned; run `kubectl uncordon worker-2`",)
    kube.unavailable = True
    assert cordoned(kube) == ()
