"""What the checks before a run read of a large cluster."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from tests.unit.gates.builders import add_pod
from tests.unit.preflight.conftest import World
from upgrader.adapters.kube import KubeAdapter
from upgrader.app.observe_cluster import kubelet_versions
from upgrader.engine.execution.cordoned_nodes import cordoned
from upgrader.gates.node_health import NodeHealth, NodeMemory
from upgrader.ports import AT_ONCE, Kube
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.context import DAEMONSETS
from upgrader.preflight.custom_resources import check_custom_resources

CRITICAL = "system-node-critical"
OBJECTS = 3000


def test_pods_of_workers_are_not_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """On 500 nodes with three critical pods each, every node is read once, page by page, and no pod but the
    controllers' and a sample, whatever the number of pods: of wrong addresses, a few pages tell."""
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
    sampled: list[str] = []

    def paged(kind: Any, *_: Any, at_once: int = AT_ONCE, **more: Any) -> Any:
        for item in every(kind, **more):
            sampled.append(kind.plural)
            yield item

    def counted(kind: Any, *arguments: Any, **more: Any) -> Any:
        items = every(kind, *arguments, **more)
        lists.append((kind.plural, len(items)))
        return items

    monkeypatch.setattr(world.kube, "list", counted)
    monkeypatch.setattr(world.kube, "each", paged)
    findings = run_checks(world.context())
    assert findings == ()
    assert Counter(sampled) == {"nodes": 501, "pods": 1000}
    assert len(lists) < 30 and sum(count for _, count in lists) < 50


class Mortal(dict[str, Any]):
    """An object that, unlike a plain dict, tells when it is gone."""


def definition(number: int) -> Mortal:
    """A CustomResourceDefinition with two versions and a conversion webhook that nothing answers."""
    webhook = {"clientConfig": {"service": {"namespace": "a", "name": "nobody"}}}
    spec = {"versions": [{}, {}], "conversion": {"strategy": "Webhook", "webhook": webhook}}
    return Mortal(metadata={"name": f"kind-{number}.example"}, spec=spec)


def node(number: int) -> Mortal:
    """A cordoned worker, with the images that its kubelet reports."""
    status = {"nodeInfo": {"kubeletVersion": "v1.36.3"}, "images": [{"names": ["registry.example/a"]}] * 50}
    metadata = {"name": f"worker-{number}", "labels": {"zone": "a"}, "managedFields": [{"manager": "kubelet"}]}
    return Mortal(metadata=metadata, spec={"unschedulable": True}, status=status)


class Many(KubeAdapter):
    """The adapter in front of an API with thousands of one kind of objects, and without any other."""

    def __init__(self, make: Callable[[int], Mortal]) -> None:
        super().__init__(Path("none"))
        self._make = make
        self.alive = self.most_alive = self.largest_page = 0

    def get(self, *_: Any) -> None:
        """Nothing else exists."""

    def _json(self, method: str, path: str, what: str, query: Any = None, *_: Any, **__: Any) -> dict[str, Any]:
        begin, size = int(query["continue"] or 0), int(query["limit"])
        items = [self._make(number) for number in range(begin, min(begin + size, OBJECTS))]
        for item in items:
            weakref.finalize(item, self._gone)
        self.alive += len(items)
        self.most_alive = max(self.most_alive, self.alive)
        self.largest_page = max(self.largest_page, len(items))
        token = str(begin + size) if begin + size < OBJECTS else ""
        return {"kind": "List", "metadata": {"continue": token}, "items": items}

    def _gone(self) -> None:
        self.alive -= 1


def test_definitions_are_not_kept(world: World) -> None:
    """Thousands are looked at, and no more than a page of them, beside the last of the page before, is in memory."""
    kube = Many(definition)
    (finding,) = check_custom_resources(replace(world.context(), kube=kube))
    assert f"and {OBJECTS - 3} more can't be converted" in finding.title
    assert kube.largest_page < 100 and kube.most_alive <= kube.largest_page + 1
    assert kube.alive <= 1, "nothing is left but what the last loop held"


def test_checks_keep_of_nodes_what_they_ask_for(world: World) -> None:
    """A node's images and managed fields are most of it: what is kept of thousands of nodes doesn't have them."""
    kube = Many(node)
    nodes = replace(world.context(), kube=kube).nodes
    assert len(nodes) == OBJECTS and kube.alive <= 1
    assert nodes["worker-7"]["metadata"] == {"name": "worker-7", "labels": {"zone": "a"}}
    assert nodes["worker-7"]["status"] == {"nodeInfo": {"kubeletVersion": "v1.36.3"}}
    assert nodes["worker-7"]["spec"] == {"unschedulable": True}


def workers(kube: Kube) -> Collection[object]:
    """As the gate of the nodes reads them."""
    return NodeHealth(kube, FakeClock(), (), NodeMemory()).workers()


@pytest.mark.parametrize("read", [kubelet_versions, cordoned, workers])
def test_nodes_are_not_kept(read: Callable[[Kube], Collection[object]]) -> None:
    """Whoever asks thousands of nodes for one thing has no more than a page of them in memory."""
    kube = Many(node)
    assert len(read(kube)) == OBJECTS
    assert kube.most_alive <= kube.largest_page + 1 <= OBJECTS / 2
