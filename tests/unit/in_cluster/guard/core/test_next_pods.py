"""Pods of a StatefulSet, whose next ones have the same names, and evictions, which are of a name."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.in_cluster.guard.core.builders import member
from upgrader.in_cluster.guard.core.admission_history import OF_EVICTIONS
from upgrader.in_cluster.guard.core.aggregation import Seen, aggregate
from upgrader.in_cluster.guard.core.ledger import SETTLED_AFTER, admit
from upgrader.in_cluster.guard.core.protector import Cell, Counts, Protector, ProtectorRequest, Tuning, judge
from upgrader.in_cluster.guard.core.selectors import Selector
from upgrader.in_cluster.guard.core.workloads import Pod

APP = Selector.of({"matchLabels": {"app": "db"}})
LABELS = {"app": "db"}


@dataclass
class _World:
    """A set of three pods. `asked`: what was allowed and hasn't ended, since when, and whether it is an eviction."""

    stored: Protector
    pods: dict[str, Pod]
    now: float = 0.0
    asked: list[tuple[Pod, bool, float]] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    noticed: dict[tuple[str, frozenset[str]], float] = field(default_factory=dict)

    def ask(self, number: int, name: str, *, evicts: bool) -> None:
        """A request for the pod of the name."""
        pod = self.pods[name]
        identity = f"{OF_EVICTIONS if evicts else ''}{number}"
        request = ProtectorRequest(identity, pod, cell="a", eviction=evicts)
        (judged,), self.stored = admit(self.stored, [request], self.now, judge)
        if judged.answer.allowed:
            self.asked.append((pod, evicts, self.now))

    def act(self, number: int) -> None:
        """What was allowed happens: to the pod, or by an eviction to the one that has its name by now."""
        pod, evicts, _ = self.asked.pop(number)
        there = self.pods.get(pod.name)
        if there is not None and (evicts or there.uid == pod.uid):
            self.gone.add(self.pods.pop(pod.name).uid)

    def count(self) -> None:
        """The aggregator sees what there is."""
        marks = {(uid, b.requests) for b in self.stored.cell("a").buckets for uid in b.known}
        self.noticed = {mark: self.noticed.get(mark, self.now) for mark in marks}
        allowed_for = {uid: self.now - since for (uid, _), since in self.noticed.items()}
        there = {each.uid: each for each in self.pods.values()}
        read: dict[str, Pod | None] = {**dict.fromkeys(self.gone), **there}
        seen = Seen(there, self.now, self.gone, read, allowed_for)
        self.stored = self.stored.with_cell(aggregate(self.stored, "a", seen, self.now).cell)

    def pass_time(self, seconds: float) -> None:
        """No request lasts for as long as a place is kept."""
        self.now += seconds
        self.asked = [each for each in self.asked if self.now - each[2] < SETTLED_AFTER]


def _pod(name: str, uid: str) -> Pod:
    return member(name, uid=uid, labels=LABELS)


@pytest.mark.parametrize("threshold", [0, 100])
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_order_of_evictions_and_deletions_takes_a_pod_too_many(threshold: int, data: st.DataObject) -> None:
    """Each happens at any moment within a minute, or never, and pods are replaced meanwhile: of three, one is gone at
    most, and after some minutes one may go again. `threshold`: how many are recorded one by one.
    """
    names = [f"db-{number}" for number in range(3)]
    pods = {name: _pod(name, name) for name in names}
    counted = Cell("a", Counts(3, 3, 3, 3, 3), 0.0)
    tuning = Tuning(compact_threshold=threshold)
    world = _World(Protector("ns", "db", 2, APP, APP, tuning=tuning, cells=(counted,)), pods)
    for step in range(data.draw(st.integers(1, 40))):
        match data.draw(st.sampled_from(["ask", "ask", "act", "act", "replace", "count", "wait"])):
            case "ask" if world.pods:
                name = data.draw(st.sampled_from(sorted(world.pods)))
                world.ask(step, name, evicts=data.draw(st.booleans()))
            case "act" if world.asked:
                world.act(data.draw(st.integers(0, len(world.asked) - 1)))
            case "replace":
                for name in names:
                    world.pods.setdefault(name, _pod(name, f"{name}-of-{step}"))
            case "count":
                world.count()
            case "wait":
                world.pass_time(data.draw(st.sampled_from([1.0, 20.0, 59.0])))
        assert len(world.pods) >= 2
    for name in names:
        world.pods.setdefault(name, _pod(name, f"{name}-at-last"))
    for _ in range(3):
        world.pass_time(SETTLED_AFTER)
        world.count()
    world.ask(99, names[0], evicts=True)
    assert world.asked, "it doesn't block for ever"
