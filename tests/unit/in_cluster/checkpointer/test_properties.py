"""The decision's invariants, over arbitrary sequences of observations and interruptions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.in_cluster.checkpointer.builders import API
from upgrader.in_cluster.checkpointer.decision.durations import History, advance
from upgrader.in_cluster.checkpointer.decision.invariants import checked
from upgrader.in_cluster.checkpointer.decision.rules import Desired, decide
from upgrader.in_cluster.checkpointer.decision.settings import Settings
from upgrader.in_cluster.checkpointer.observed_values import (
    ApiState,
    LeaseSeen,
    Observation,
    ParentPod,
    Presence,
    StandbySeen,
)
from upgrader.onhost.node.generation_choice import Generation, WorkloadInventory
from upgrader.onhost.node.workload_policy import Policy

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
    """An observation and how often it repeats, so that durations do pass."""
    api = draw(st.sampled_from(ApiState))
    answering = api is ApiState.ANSWERING
    found = draw(st.lists(pods, max_size=2, unique_by=lambda p: p.uid)) if answering else []
    leases = draw(st.dictionaries(st.just(API), st.builds(LeaseSeen, st.sampled_from("xyz"), st.booleans())))
    runtime = draw(st.none() | st.builds(lambda p: {API: p}, presences))
    ownerless = draw(st.frozensets(st.just(API))) if answering else frozenset()
    standbys = {API: StandbySeen(0, draw(presences), draw(st.booleans()))}
    seen = Observation(0.0, api, tuple(found), runtime, leases if answering else {}, standbys, ownerless)
    return seen, draw(st.integers(1, 20))


@dataclass
class Disk:
    """The files, without their content. `apply` may be interrupted after any number of file operations."""

    policy: Policy
    generations: list[Generation] = field(default_factory=list)
    active: int | None = None

    def seen(self, seen: Observation, now: float) -> Observation:
        """That observation, now, of what the disk makes the kubelet run."""
        standbys = {} if self.active is None else {w: replace(c, number=self.active) for w, c in seen.standbys.items()}
        return replace(seen, now=now, standbys=standbys)

    def inventory(self) -> WorkloadInventory:
        """What a pass reads."""
        return WorkloadInventory(self.policy, tuple(self.generations), self.active is not None, self.active)

    def apply(self, desired: Desired, operations: int) -> None:
        """Carry the answer out, up to the interruption."""
        for failed in desired.failed.values():
            if operations > 0:
                self.generations = [replace(g, failed=g.failed or g.number == failed) for g in self.generations]
                operations -= 1
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


generations = st.lists(
    st.builds(
        Generation,
        number=st.just(0),
        digest=st.sampled_from(["a", "b", "c"]),
        intact=st.booleans(),
        has_images=st.sampled_from([None, True, False]),
        failed=st.booleans(),
    ),
    max_size=4,
).map(lambda found: [replace(g, number=n) for n, g in enumerate(found, start=1)])
steps = st.lists(st.tuples(look(), st.sampled_from([0, 1, 2, 9]), st.booleans()), max_size=12)


@given(steps=steps, policy=st.sampled_from(Policy), first=generations)
@settings(max_examples=200, deadline=None)
def test_invariants_hold_over_any_sequence(
    steps: list[tuple[tuple[Observation, int], int, bool]], policy: Policy, first: list[Generation]
) -> None:
    """I1 to I7 hold in every pass, whatever was seen, wherever a pass was interrupted, and across restarts."""
    disk = Disk(policy, first)
    history, now = History(), 100.0
    ready: dict[tuple[str, str], float] = {}
    answering: float | None = None
    trouble: tuple[int, float] | None = None
    tried: set[int] = set()
    for (seen, repeat), operations, restart in steps:
        if restart:
            history, ready, answering, trouble = History(), {}, None, None
        for _ in range(repeat):
            now += 1.0
            this = disk.seen(seen, now)
            before = disk.inventory()
            history = advance(history, this, [API], SETTINGS.ready_for)
            desired = decide(history, this.parents, {API: before}, SETTINGS)
            assert checked(desired, history, {API: before}, SETTINGS) == (desired, ())
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
            # An independent account of how long the standby pod in place has been known to have had its chance, in
            # vain.
            standby = this.standbys.get(API) if this.runtime is not None else None
            vain = (
                standby is not None and not standby.presence.up and not standby.presence.unknown and not standby.blocked
            )
            if (
                standby is None
                or standby.presence.unknown
                or standby.blocked
                or (trouble and trouble[0] != standby.number)
            ):
                trouble = None
            if vain and standby is not None and trouble is None:
                trouble = (standby.number, now)
            switched = placed is not None and before.active and placed != before.active_number
            whole = before.active_number in {g.number for g in before.intact}
            if switched and policy is Policy.ALWAYS and whole:  # I3
                assert answering is not None and now - answering >= SETTINGS.release_after
            elif switched and whole:
                assert trouble is not None and now - trouble[1] >= SETTINGS.crash_grace
                assert desired.failed == {API: before.active_number}
                assert policy is not Policy.API_AWAY or this.api is ApiState.AWAY
                better = [g for g in before.intact if not g.failed and g.number != before.active_number]
                assert not [g for g in better if g.has_images is not False] or placed in {
                    g.number for g in better
                }  # I7
            else:
                assert not desired.failed
            if placed is not None and not before.active and policy is not Policy.ALWAYS:  # I4
                assert this.runtime is not None
                assert not this.runtime[API].unknown
                assert (this.api is ApiState.AWAY) == (policy is Policy.API_AWAY)
            gone = {number for _, number in desired.prune}
            if switched and whole and policy is not Policy.ALWAYS and operations >= 9:  # I7
                assert before.active_number not in tried or placed == max(g.number for g in before.intact)
                tried.add(before.active_number or 0)
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
            this = disk.seen(seen, now)
            history = advance(history, this, [API], SETTINGS.ready_for)
            for _ in range(4):
                desired = decide(history, this.parents, {API: disk.inventory()}, SETTINGS)
                disk.apply(desired, 99)
            settled = decide(history, this.parents, {API: disk.inventory()}, SETTINGS)
            assert settled.capture == () and settled.prune == ()
            assert settled.manifests.get(API) in (None, disk.active)
