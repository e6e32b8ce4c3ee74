"""What the checks before a run read of a large cluster."""

from __future__ import annotations

import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.gates.builders import add_pod
from tests.unit.preflight.conftest import World
from upgrader.adapters.kube import KubeAdapter
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.context import DAEMONSETS
from upgrader.preflight.custom_resources import check_custom_resources

CRITICAL = "system-node-critical"
DEFINITIONS = 3000


def test_pods_of_workers_are_not_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """On 500 nodes with three critical pods each, every node is read once, and no pod but the controllers' and a
    sample, whatever the number of pods: of wrong addresses, a few pages tell."""
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

    def paged(kind: Any, *_: Any, at_once: int = 50, **more: Any) -> Any:
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
    assert [count for plural, count in lists if plural == "nodes"] == [501]
    assert sampled == ["pods"] * 1000
    assert len(lists) < 30 and sum(count for plural, count in lists if plural != "nodes") < 50


class Definition(dict[str, Any]):
    """A CustomResourceDefinition that, unlike a plain dict, tells when it is gone."""


def definition(number: int) -> Definition:
    """One with two versions and a conversion webhook that nothing answers."""
    webhook = {"clientConfig": {"service": {"namespace": "a", "name": "nobody"}}}
    spec = {"versions": [{}, {}], "conversion": {"strategy": "Webhook", "webhook": webhook}}
    return Definition(metadata={"name": f"kind-{number}.example"}, spec=spec)


class ManyDefinitions(KubeAdapter):
    """The adapter in front of an API with thousands of definitions, and without any Service."""

    def __init__(self) -> None:
        super().__init__(Path("none"))
        self.alive = self.most_alive = self.largest_page = 0

    def get(self, *_: Any) -> None:
        """Nothing else exists."""

    def _json(self, method: str, path: str, what: str, query: Any = None, *_: Any, **__: Any) -> dict[str, Any]:
        begin, size = int(query["continue"] or 0), int(query["limit"])
        items = [definition(number) for number in range(begin, min(begin + size, DEFINITIONS))]
        for item in items:
            weakref.finalize(item, self._gone)
        self.alive += len(items)
        self.most_alive = max(self.most_alive, self.alive)
        self.largest_page = max(self.largest_page, len(items))
        return {"metadata": {"continue": str(begin + size) if begin + size < DEFINITIONS else ""}, "items": items}

    def _gone(self) -> None:
        self.alive -= 1


def test_definitions_are_not_kept(world: World) -> None:
    """Thousands are looked at, and no more than a page of them, beside the last of the page before, is in memory."""
    kube = ManyDefinitions()
    (finding,) = check_custom_resources(replace(world.context(), kube=kube))
    assert f"and {DEFINITIONS - 3} more can't be converted" in finding.title
    assert kube.largest_page < 100 and kube.most_alive <= kube.largest_page + 1
    assert kube.alive <= 1, "nothing is left but what the last loop held"
