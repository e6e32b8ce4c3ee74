"""The decision's invariants, over arbitrary sequences of looks and interruptions."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.checkpointer.builders import API
from upgrader.checkpointer.decide import Desired, decide
from upgrader.checkpointer.history import History, advance
from upgrader.checkpointer.model import (
    ApiState,
    Generation,
    Holding,
    LeaseSeen,
    Observation,
    ParentPod,
    Policy,
    Presence,
    Settings,
)

SETTINGS = Settings(ready_for=6, grace=4, release_after=6, keep=2)

pods = st.builds(
    ParentPod,
    workload=st.just(API),
    namespace=st.just("kube-system"),
    name=st.just("pod"),
    uid=st.sampled_from(["u1", "u2"]),
    created=st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]),
    ready=st.booleans(),
    terminating=st.booleans(),
    digest=st.sampled_from([None, "a", "b", "c"]),
)
presences = st.builds(
    Presence,
    running=st.frozensets(st.sampled_from(["c1", "c2"])),
    up=st.frozensets(st.sampled_from(["c1", "c2"])),
    sandbox=st.booleans(),
    unknown=st.booleans(),
)


@st.composite
def look(draw: st.DrawFn) -> tuple[Observation, float]:
    """A look and how often it repeats, so that durations do pass."""
    api = draw(st.sampled_from(ApiState))
    answering = api is ApiState.ANSWERING
    found = draw(st.lists(pods, max_size=2, unique_by=lambda p: p.uid)) if answering else []
    leases = draw(st.dictionaries(st.just(API), st.builds(LeaseSeen, st.sampled_from("xyz"), st.booleans())))
    runtime = draw(st.none() | st.builds(lambda p: {API: p}, presences))
    return Observation(0.0, api, tuple(found), runtime, leases if answering else {}), draw(st.integers(1, 12))


@dataclass
class Disk:
    """The files, without their content. ``apply`` may be cut off after any number of file operations."""

    policy: Policy
    generations: list[Generation] = field(default_factory=list)
    active: int | None = None

    def holding(self) -> Holding:
        """What a pass reads."""
        return Holding(self.policy, tuple(self.generations), self.active is not None, self.active)

    def apply(self, desired: Desired, operations: int) -> None:
        """Carry the answer out, up to the interruption."""
        for number in desired.manifests.values():
            if operations > 0 and number != self.active:
                self.active, operations = number, operations - 1
        for pod in desired.capture:
            if operations > 0 and pod.digest is not None:
                number = max((g.number for g in self.generations), default=0) + 1
                self.generations.append(Generation(number, pod.digest))
                operations -= 1
        for _, number in desired.prune:
            if operations > 0:
                self.generations = [g for g in self.generations if g.number != number]
                operations -= 1


steps = st.lists(st.tuples(look(), st.sampled_from([0, 1, 2, 9]), st.booleans()), max_size=12)


@given(steps=steps, policy=st.sampled_from(Policy), first=st.booleans())
@settings(max_examples=150, deadline=None)
def test_invariants_hold_over_any_sequence(
    steps: list[tuple[tuple[Observation, int], int, bool]], policy: Policy, first: bool
) -> None:
    """I1 to I6 hold at every look, whatever was seen, wherever a pass was cut off, and across restarts."""
    disk = Disk(policy, [Generation(1, "a")] if first else [])
    history, now = History(), 100.0
    ready: dict[tuple[str, str], float] = {}
    answering: float | None = None
    for (seen, repeat), operations, restart in steps:
        if restart:
            history, ready, answering = History(), {}, None
        for _ in range(repeat):
            now += 1.0
            this = Observation(now, seen.api, seen.parents, seen.runtime, seen.leases)
            before = disk.holding()
            history = advance(history, this, [API], SETTINGS.ready_for)
            desired = decide(history, this.parents, {API: before}, SETTINGS)
            known = this.api is ApiState.ANSWERING and this.runtime is not None
            # An independent account of who has been Ready since when.
            proving = {(p.uid, p.digest) for p in this.parents if p.ready and not p.terminating and p.digest}
            ready = {key: ready.get(key, now) for key in proving if key[1] is not None}
            answering = (answering or now) if this.api is ApiState.ANSWERING else None

            for pod in desired.capture:  # I1
                assert pod.digest is not None
                assert now - ready[(pod.uid, pod.digest)] >= SETTINGS.ready_for
            withdrawn = before.active and desired.manifests.get(API, before.active_number) is None
            if withdrawn:  # I2, I5
                assert known
                assert answering is not None and now - answering >= SETTINGS.release_after
                assert policy is not Policy.ALWAYS
            if desired.prune:  # I2
                assert known
            placed = desired.manifests.get(API)
            if placed is not None and before.active and placed != before.active_number:  # I3
                assert policy is Policy.ALWAYS
                assert answering is not None and now - answering >= SETTINGS.release_after
            if placed is not None and not before.active and policy is not Policy.ALWAYS:  # I4
                assert this.runtime is not None
                assert not this.runtime[API].unknown
                assert (this.api is ApiState.AWAY) == (policy is Policy.API_AWAY)
            gone = {number for _, number in desired.prune}
            if before.last_good is not None:  # I6
                assert before.last_good.number not in gone
            assert placed not in gone and before.active_number not in gone

            disk.apply(desired, operations)
            numbers = [g.number for g in disk.generations]
            assert disk.active is None or disk.active in numbers
            assert not before.generations or numbers


@given(steps=steps, policy=st.sampled_from(Policy))
@settings(max_examples=75, deadline=None)
def test_the_answer_is_a_fixed_point(steps: list[tuple[tuple[Observation, int], int, bool]], policy: Policy) -> None:
    """Once everything is applied, deciding again from the same history changes nothing."""
    disk = Disk(policy, [Generation(1, "a")])
    history, now = History(), 100.0
    for (seen, repeat), _, _ in steps:
        for _ in range(repeat):
            now += 1.0
            this = Observation(now, seen.api, seen.parents, seen.runtime, seen.leases)
            history = advance(history, this, [API], SETTINGS.ready_for)
            for _ in range(4):
                desired = decide(history, this.parents, {API: disk.holding()}, SETTINGS)
                disk.apply(desired, 99)
            settled = decide(history, this.parents, {API: disk.holding()}, SETTINGS)
            assert settled.capture == () and settled.prune == ()
            assert settled.manifests.get(API) in (None, disk.active)
