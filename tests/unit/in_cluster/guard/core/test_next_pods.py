"""Pods of a StatefulSet, whose next ones have the same names, and evictions, which are of a name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
NAMES = [f"db-{number}" for number in range(3)]


@dataclass
class _World:
    """A set of three pods. `asked`: what was allowed and hasn't ended, since when, and whether it is an eviction.
    `taken`: the names of the pods that requests have deleted, and that aren't there again.
    """

    stored: Protector
    pods: dict[str, Pod]
    now: float = 0.0
    asked: list[tuple[Pod, bool, float]] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    evicted: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    noticed: dict[tuple[str, frozenset[str]], float] = field(default_factory=dict)

    def ask(self, number: int, name: str, *, evicts: bool) -> bool:
        """A request for the pod of the name. The webhook isn't called for a deletion of one that terminates."""
        pod = self.pods[name]
        identity = f"{OF_EVICTIONS if evicts else ''}{number}"
        request = ProtectorRequest(identity, pod, cell="a", eviction=evicts)
        (judged,), self.stored = admit(self.stored, [request], self.now, judge)
        if judged.answer.allowed:
            self.asked.append((pod, evicts, self.now))
        return judged.answer.allowed

    def act(self, number: int) -> None:
        """What was allowed happens: to the pod, or by an eviction to the one that has its name by now."""
        pod, evicts, _ = self.asked.pop(number)
        there = self.pods.get(pod.name)
        if there is not None and not there.terminating and (evicts or there.uid == pod.uid):
            self.pods[pod.name] = replace(there, terminating=True, evicted=evicts)
            self.taken.add(pod.name)

    def fail(self, name: str) -> None:
        """Its node ends it, and its controller deletes what is left: no place is needed for that."""
        self.gone.add(self.pods.pop(name).uid)

    def end(self, name: str, *, watched: bool) -> None:
        """One that terminates is gone. `watched`: the aggregator has seen why."""
        self.gone.add(self.pods[name].uid)
        if watched and self.pods[name].evicted:
            self.evicted.add(self.pods[name].uid)
        del self.pods[name]

    def make(self, name: str, uid: str) -> None:
        """The next pod of a name, if there is none."""
        if name not in self.pods:
            self.pods[name] = _pod(name, uid)
            self.taken.discard(name)

    def count(self) -> None:
        """The aggregator sees what there is."""
        marks = {(uid, b.requests) for b in self.stored.cell("a").buckets for uid in b.known}
        self.noticed = {mark: self.noticed.get(mark, self.now) for mark in marks}
        allowed_for = {uid: self.now - since for (uid, _), since in self.noticed.items()}
        there = {each.uid: each for each in self.pods.values()}
        read: dict[str, Pod | None] = {**dict.fromkeys(self.gone), **there}
        seen = Seen(there, self.now, self.gone, read, allowed_for, evicted=self.evicted)
        self.stored = self.stored.with_cell(aggregate(self.stored, "a", seen, self.now).cell)

    def pass_time(self, seconds: float) -> None:
        """No request lasts for as long as a place is kept."""
        self.now += seconds
        self.asked = [each for each in self.asked if self.now - each[2] < SETTLED_AFTER]


def _pod(name: str, uid: str) -> Pod:
    return member(name, uid=uid, labels=LABELS)


def _world(threshold: int = 100) -> _World:
    """One of three may go. `threshold`: how many deletions are recorded one by one."""
    counted, tuning = Cell("a", Counts(3, 3, 3, 3, 3), 0.0), Tuning(compact_threshold=threshold)
    pods = {name: _pod(name, name) for name in NAMES}
    return _World(Protector("ns", "db", 2, APP, APP, tuning=tuning, cells=(counted,)), pods)


def test_an_eviction_of_a_pod_that_terminates_may_take_the_next_one() -> None:
    """A second drain evicts a pod that terminates already: it hangs until the next pod of that name is Ready. The place
    is kept for a minute, although the next pod counts, and the first eviction is known to be over.
    """
    world = _world()
    assert world.ask(1, "db-0", evicts=True)
    world.act(0)
    world.count()
    assert world.ask(2, "db-0", evicts=True)
    world.end("db-0", watched=True)
    world.make("db-0", "next")
    world.count()
    assert not world.ask(3, "db-1", evicts=False)
    world.pass_time(SETTLED_AFTER)
    world.count()
    assert world.ask(4, "db-1", evicts=False)


@pytest.mark.parametrize("how", ["fails", "deleted before it was ready"])
def test_a_pod_that_goes_without_its_eviction_leaves_it_to_the_next_one(how: str) -> None:
    """No request is recorded for the end of a pod that has failed, or isn't Ready, and its controller makes the next
    one at once: the only eviction that was recorded may still be on its way.
    """
    world = _world()
    if how != "fails":
        world.pods["db-0"] = replace(world.pods["db-0"], ready_since=None)
    assert world.ask(1, "db-0", evicts=True)
    world.fail("db-0")
    world.make("db-0", "next")
    world.count()
    assert not world.ask(2, "db-1", evicts=True)
    world.act(0)
    assert world.taken == {"db-0"}
    world.end("db-0", watched=True)
    world.make("db-0", "third")
    world.pass_time(SETTLED_AFTER)
    world.count()
    assert world.ask(3, "db-1", evicts=True)


def test_an_eviction_that_was_carried_out_holds_up_no_other() -> None:
    """A drain needn't wait for a minute after each pod, if the API server says what has deleted it."""
    world = _world()
    assert world.ask(1, "db-0", evicts=True)
    world.act(0)
    world.count()
    world.end("db-0", watched=True)
    world.make("db-0", "next")
    world.count()
    assert world.ask(2, "db-1", evicts=True)


def test_of_more_evictions_than_are_recorded_one_by_one_none_is_forgotten() -> None:
    """Of 250 evicted pods that have failed meanwhile, each may still have an eviction on its way to the next pod of its
    name: none lets another pod go for a minute, and all do after that.
    """
    names = [f"db-{number}" for number in range(252)]
    counted, pods = Cell("a", Counts(252, 252, 252, 252, 252), 0.0), {name: _pod(name, name) for name in names}
    world = _World(Protector("ns", "db", 2, APP, APP, cells=(counted,)), pods)
    for number, name in enumerate(names[:250]):
        assert world.ask(number, name, evicts=True)
    for name in names[:250]:
        world.fail(name)
        world.make(name, f"{name}-next")
    world.count()
    assert not world.ask(300, names[251], evicts=False)
    world.pass_time(SETTLED_AFTER)
    world.count()
    assert world.ask(301, names[251], evicts=False)


@pytest.mark.parametrize("threshold", [0, 100])
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_order_of_evictions_and_deletions_takes_a_pod_too_many(threshold: int, data: st.DataObject) -> None:
    """Each happens at any moment within a minute, or never, and pods fail and are replaced meanwhile: of three,
    requests have taken one at most, and after some minutes one may go again. `threshold`: how many are recorded one by
    one.
    """
    world = _world(threshold)
    for step in range(data.draw(st.integers(1, 40))):
        match data.draw(st.sampled_from(["ask", "ask", "act", "act", "end", "fail", "make", "make", "count", "wait"])):
            case "ask" if world.pods:
                name = data.draw(st.sampled_from(sorted(world.pods)))
                evicts = world.pods[name].terminating or data.draw(st.booleans())
                world.ask(step, name, evicts=evicts)
            case "act" if world.asked:
                world.act(data.draw(st.integers(0, len(world.asked) - 1)))
            case "end" if ends := sorted(name for name, each in world.pods.items() if each.terminating):
                world.end(data.draw(st.sampled_from(ends)), watched=data.draw(st.booleans()))
            case "fail" if fails := sorted(name for name, each in world.pods.items() if not each.terminating):
                world.fail(data.draw(st.sampled_from(fails)))
            case "make":
                world.make(name := data.draw(st.sampled_from(NAMES)), f"{name}-of-{step}")
            case "count":
                world.count()
            case "wait":
                world.pass_time(data.draw(st.sampled_from([1.0, 20.0, 59.0])))
        assert len(world.taken) <= 1
    for name in NAMES:
        if name in world.pods and world.pods[name].terminating:
            world.end(name, watched=False)
        world.make(name, f"{name}-at-last")
    for _ in range(3):
        world.pass_time(SETTLED_AFTER)
        world.count()
    assert world.ask(99, NAMES[0], evicts=True), "it doesn't block for ever"
