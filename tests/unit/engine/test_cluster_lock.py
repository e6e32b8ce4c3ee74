"""The cluster's lock: one holder, never lost while it lives, and free for others once it doesn't."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from testkit.waiting import stretched
from upgrader.engine.locks.cluster_lock import ClusterLock, acquire
from upgrader.engine.locks.group_notes import GroupNotes
from upgrader.engine.locks.heartbeat import kept_alive
from upgrader.engine.locks.lease_object import GROUPS, LEASE_SECONDS, LEASES, NAME, NAMESPACE, Holder, Lease
from upgrader.errors import ApiError, ApiUnavailable, Locked
from upgrader.model.event import (
    Event,
    RunEnded,
    RunStarted,
    StepApplied,
    StepEnded,
    StepInspected,
    StepStarted,
    UndoEnded,
    UndoStarted,
)
from upgrader.model.run_kind import RunKind
from upgrader.ports import Kind, KubeObject

ANNA = Holder("anna@laptop (process 7) a1", "boot-1:8:42")
BEN = Holder("ben@ci (process 9) b2", "boot-2:8:17")


class Time(FakeClock):
    """A clock during whose sleeps something happens, and whose wall clock may be wrong."""

    def __init__(self, wrong: timedelta = timedelta()) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] = lambda: None
        self._wrong = wrong
        self._readings = 0

    def now(self) -> datetime:
        self._readings += 1
        return super().now() + self._wrong + timedelta(microseconds=self._readings)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.meanwhile()


def take(kube: FakeKube, clock: FakeClock, holder: Holder, *, take_over: bool = False) -> ClusterLock:
    """Acquire the lock."""
    return acquire(kube, clock, holder, take_over=take_over, note=lambda text: None)


def holder(kube: FakeKube) -> str:
    """Who holds the lock; "" when it is free."""
    found = kube.get(LEASES, NAME, NAMESPACE)
    lease = found and Lease.read(found)
    return lease.holder.identity if lease and lease.holder else ""


def purpose(kube: FakeKube) -> str:
    """What the Lease says of itself."""
    found = kube.get(LEASES, NAME, NAMESPACE)
    assert found is not None
    return str(found["metadata"]["annotations"]["kubernetes.io/description"])


@pytest.mark.parametrize(
    "wrong", [timedelta(), timedelta(days=1), timedelta(days=-1)], ids=["right", "ahead", "behind"]
)
def test_living_holder_is_not_replaced(wrong: timedelta) -> None:
    """Another run is refused as soon as it sees the holder renew, however wrong either clock is."""
    kube, clock = FakeKube(), Time()
    anna = take(kube, Time(wrong), ANNA)
    clock.meanwhile = anna.renew
    with pytest.raises(Locked, match=r"anna@laptop \(process 7\)") as caught:
        take(kube, clock, BEN)
    assert caught.value.exit_code == 6
    assert "--take-over" in caught.value.remedy
    assert holder(kube) == ANNA.identity
    assert clock.monotonic() < 10, "a living holder is recognised at its first renewal"


@pytest.mark.parametrize(
    "wrong", [timedelta(), timedelta(days=1), timedelta(days=-1)], ids=["right", "ahead", "behind"]
)
def test_dead_holder_is_replaced_after_its_time(wrong: timedelta) -> None:
    """A holder that doesn't renew is replaced after its lease duration, and no sooner."""
    kube, clock = FakeKube(), Time()
    take(kube, Time(wrong), ANNA)
    ben = take(kube, clock, BEN)
    assert holder(kube) == BEN.identity
    assert LEASE_SECONDS <= clock.monotonic() < LEASE_SECONDS + 5
    assert ben.taken_over is not None
    assert ANNA.identity in ben.taken_over.holder and "no sign of life" in ben.taken_over.why


def test_holder_whose_folder_lock_we_hold_is_dead() -> None:
    """After a kill, the same folder on the same machine continues at once: its lock file was the dead process's."""
    kube, clock = FakeKube(), Time()
    take(kube, clock, ANNA)
    again = take(kube, clock, Holder("anna@laptop (process 8) c3", ANNA.folder_lock))
    assert clock.monotonic() == 0
    assert again.taken_over is not None and "process has ended" in again.taken_over.why


def test_unknown_folder_locks_prove_nothing() -> None:
    """Where a holder's lock file is unknown, two of them are not taken for the same."""
    kube, clock = FakeKube(), Time()
    anna = take(kube, clock, Holder("anna"))
    clock.meanwhile = anna.renew
    with pytest.raises(Locked):
        take(kube, clock, Holder("ben"))


def test_forced_take_over() -> None:
    """--take-over doesn't wait; the old holder learns at its next renewal who holds the lock, and releases nothing."""
    kube, clock = FakeKube(), Time()
    anna = take(kube, clock, ANNA)
    ben = take(kube, clock, BEN, take_over=True)
    assert clock.monotonic() == 0
    assert ben.taken_over is not None and ben.taken_over.why == "forced"
    assert not anna.renew()
    assert BEN.identity in anna.lost_to
    assert anna.release()
    assert holder(kube) == BEN.identity
    assert ben.renew()


def test_released_lock_is_free_at_once() -> None:
    """After a release, the next run neither waits nor takes over. The Lease says what it is for, held or free."""
    kube, clock = FakeKube(), Time()
    anna = take(kube, clock, ANNA)
    held = purpose(kube)
    assert anna.release() and holder(kube) == ""
    assert "upgrader's lock" in held and purpose(kube) == held
    ben = take(kube, clock, BEN)
    assert (clock.monotonic(), ben.taken_over) == (0, None)


def test_release_does_not_wait_for_an_api_that_is_away() -> None:
    """With the API unreachable, the release ends within seconds, and reports that it failed."""
    kube, clock = FakeKube(), Time()
    anna = take(kube, clock, ANNA)
    kube.unavailable = True
    notes = list[str]()
    assert not anna.release(notes.append)
    assert clock.monotonic() < 10
    (note,) = notes
    assert note.startswith("waiting up to 5 s for the cluster's lock to be released: ")


def test_api_that_is_away_loses_nothing() -> None:
    """However long the API is unreachable, a live holder keeps the lock, though another process was watching."""
    kube, clock = FakeKube(), Time()
    anna = take(kube, clock, ANNA)
    outage = range(3, 3 + LEASE_SECONDS * 2)

    def meanwhile() -> None:
        kube.unavailable = int(clock.monotonic()) in outage
        if int(clock.monotonic()) >= outage.stop + 4:
            assert anna.renew()

    clock.meanwhile = meanwhile
    with pytest.raises(Locked):
        take(kube, clock, BEN)
    kube.unavailable = True
    assert anna.renew(), "an API that doesn't answer has not given the lock to anybody"


def test_first_look_needs_the_api() -> None:
    """A run on a cluster whose API doesn't answer fails at once."""
    kube, clock = FakeKube(), Time()
    kube.unavailable = True
    with pytest.raises(ApiUnavailable):
        take(kube, clock, BEN)
    assert clock.monotonic() == 0


def test_waiting_has_an_end() -> None:
    """An API that keeps becoming unreachable while a dead holder is watched ends the wait, instead of prolonging it."""
    kube, clock = FakeKube(), Time()
    take(kube, Time(), ANNA)

    def meanwhile() -> None:
        kube.unavailable = int(clock.monotonic()) % 20 == 0

    clock.meanwhile = meanwhile
    with pytest.raises((Locked, ApiUnavailable)):
        take(kube, clock, BEN)
    assert clock.monotonic() <= 4 * LEASE_SECONDS


def test_doing_is_told_to_whoever_asks() -> None:
    """The next run names the run that holds the lock, and what it does."""
    kube, clock = FakeKube(), Time()
    anna = take(kube, clock, ANNA)
    anna.emit(RunStarted("20260101T000000-v1.37.1", RunKind.UPGRADE, ("kube-apiserver",), "/x"))
    anna.emit(StepApplied("kube-apiserver", 3.0))
    clock.meanwhile = anna.renew
    with pytest.raises(Locked, match=r"20260101T000000-v1\.37\.1: kube-apiserver: waiting for its gates"):
        take(kube, clock, BEN)


def test_removed_lease_is_made_again() -> None:
    """A Lease that was deleted manually is created again by the next renewal, still ours."""
    kube, clock = FakeKube(), Time()
    anna = take(kube, clock, ANNA)
    kube.delete(LEASES, NAME, NAMESPACE)
    assert anna.renew() and anna.renew()
    assert holder(kube) == ANNA.identity


class Deaf(FakeKube):
    """An API whose answers to changes get lost after the changes were made."""

    deaf = False

    def create(self, kind: Kind, manifest: KubeObject, namespace: str = "", *, dry_run: bool = False) -> KubeObject:
        return self._lost(super().create(kind, manifest, namespace, dry_run=dry_run))

    def replace(self, kind: Kind, manifest: KubeObject, namespace: str = "") -> KubeObject:
        return self._lost(super().replace(kind, manifest, namespace))

    def _lost(self, answer: KubeObject) -> KubeObject:
        if self.deaf:
            raise ApiUnavailable("connection reset")
        return answer


def test_lost_answers_lose_no_lock() -> None:
    """A renewal whose answer was lost is recognised as our own; so is a first acquisition."""
    kube, clock = Deaf(), Time()
    anna = take(kube, clock, ANNA)
    kube.deaf = True
    assert anna.renew()
    kube.deaf = False
    assert anna.renew() and anna.renew() and not anna.lost_to
    assert take(kube, clock, ANNA).taken_over is None
    kube.deaf = True
    anna.release()
    assert holder(kube) == ""


class Rivalry(FakeKube):
    """An API that lets a rival act just before one of our requests."""

    rival: Callable[[], object] | None = None
    left = 0

    def _check(self, what: str) -> None:
        super()._check(what)
        if self.rival is not None:
            self.left -= 1
            if self.left < 0:
                rival, self.rival = self.rival, None
                rival()


@pytest.mark.parametrize("before", ["nothing", "free", "dead"])
@pytest.mark.parametrize("request_number", range(4))
def test_two_at_the_same_instant(before: str, request_number: int) -> None:
    """Whenever a rival acts between two of our requests, exactly one of us holds the lock, and both know who."""
    kube, clock, others = Rivalry(), Time(), Time()
    if before != "nothing":
        old = take(kube, clock, Holder("old"))
        if before == "free":
            old.release()
    won: list[ClusterLock] = []
    clock.meanwhile = others.meanwhile = lambda: [lock.renew() for lock in won]

    def try_it(time: Time, who: Holder) -> None:
        with suppress(Locked):
            won.append(take(kube, time, who))

    kube.left = request_number + (60 if before == "dead" and request_number else 0)
    kube.rival = lambda: try_it(others, BEN)
    try_it(clock, ANNA)
    if kube.rival is not None:
        kube.rival = None
        try_it(others, BEN)
    assert len([lock for lock in won if lock.renew()]) == 1
    assert holder(kube) in (ANNA.identity, BEN.identity)


@given(st.lists(st.booleans(), min_size=1, max_size=200), st.integers(1, 8))
def test_whoever_renews_keeps_the_lock(away: list[bool], every: int) -> None:
    """Whatever outages the API has, a holder that renews while it answers is never replaced."""
    kube, clock = FakeKube(), Time()
    anna = take(kube, Time(), ANNA)
    ticks = iter(range(10**6))

    def meanwhile() -> None:
        tick = next(ticks)
        kube.unavailable = away[tick % len(away)]
        if tick % every == 0:
            assert anna.renew()

    clock.meanwhile = meanwhile
    with pytest.raises((Locked, ApiUnavailable)):
        take(kube, clock, BEN)
    kube.unavailable = False
    assert anna.renew() and holder(kube) == ANNA.identity


def test_refusal_is_told() -> None:
    """An API that refuses (no permission for Leases) is an error, not a lock."""

    class Refusing(FakeKube):
        def create(self, kind: Kind, manifest: KubeObject, namespace: str = "", *, dry_run: bool = False) -> Any:
            error = ApiError("leases is forbidden")
            error.status = 403
            raise error

    with pytest.raises(ApiError, match="forbidden"):
        take(Refusing(), Time(), ANNA)


class Conflicting(FakeKube):
    """A webhook answers each write of a Lease with a conflict; a hundred answers are more than enough."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    def create(self, kind: Kind, manifest: KubeObject, namespace: str = "", *, dry_run: bool = False) -> KubeObject:
        raise self._conflict()

    def replace(self, kind: Kind, manifest: KubeObject, namespace: str = "") -> KubeObject:
        raise self._conflict()

    def _conflict(self) -> ApiError:
        self.writes += 1
        assert self.writes <= 1000, "it is asked without an end"
        error = ApiError("admission webhook denied the request: conflict")
        error.status = 409
        return error


@pytest.mark.parametrize("there", [False, True])
def test_a_conflict_that_lasts_is_told(there: bool) -> None:
    """Another process that is quicker has the lock then; what conflicts without that is no rival, and has an end."""
    kube, clock = Conflicting(), FakeClock()
    if there:
        kube.put(LEASES, {"metadata": {"name": NAME}, "spec": {}}, NAMESPACE)
    with pytest.raises(ApiError, match="denied the request: conflict"):
        take(kube, clock, ANNA)
    assert clock.monotonic() <= 300


def test_lock_is_kept_alive_beside_the_run() -> None:
    """While the context is open the lock is renewed; once another process takes it, that is reported, with its name."""
    kube, clock = FakeKube(), Time()
    anna = take(kube, clock, ANNA)
    lost: list[str] = []
    reported = threading.Event()

    def on_lost(other: str) -> None:
        lost.append(other)
        reported.set()

    with kept_alive(anna, on_lost, every_seconds=0.001):
        take(kube, clock, BEN, take_over=True)
        assert reported.wait(stretched(30))
    assert len(lost) == 1 and BEN.identity in lost[0]


@pytest.mark.parametrize("same_folder", [True, False])
def test_lock_of_a_dead_holder_is_taken_only_when_its_journal_was_read(same_folder: bool) -> None:
    """Where the dead run's journal can't be found, its lock stays as it is, and the error says why; unless forced."""
    kube, clock = FakeKube(), Time()
    take(kube, clock, ANNA)
    me = Holder("me", ANNA.folder_lock if same_folder else "")

    def acquired(problem: str, *, take_over: bool = False) -> ClusterLock:
        return acquire(kube, clock, me, take_over=take_over, note=lambda _: None, unread=lambda _: problem)

    with pytest.raises(Locked, match="its journal is nowhere") as caught:
        acquired("its journal is nowhere")
    assert ANNA.identity in caught.value.message and "--take-over" in caught.value.remedy
    assert holder(kube) == ANNA.identity
    assert acquired("its journal is nowhere", take_over=True).taken_over is not None


def rolls(kube: FakeKube) -> str:
    """The groups that guard may roll; "" for none."""
    found: Any = kube.get(LEASES, NAME, NAMESPACE)
    return str(found["metadata"]["annotations"].get(GROUPS, ""))


@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        (StepStarted("shop", "change", None), StepEnded("shop", "passed", 1)),
        (StepStarted("shop", "change", None), StepEnded("shop", "failed", 1)),
        (StepInspected("shop", True, "in place"), RunEnded("r1", "interrupted", 1)),
        (UndoStarted("shop", "revision 1"), UndoEnded("shop", True, 1)),
    ],
)
def test_groups_of_a_step_are_noted_as_long_as_it_is_at_work(begins: Event, ends: Event) -> None:
    """At once, so that guard refuses nothing that the step needs; and steps of the control plane note none."""
    kube, clock = FakeKube(), Time()
    anna = take(kube, clock, ANNA)
    notes = GroupNotes(anna, {"shop": {"shop/db", "shop/cache"}, "kubernetes": ()})
    notes.emit(StepStarted("kubernetes", "change", None))
    assert rolls(kube) == ""
    for event in (begins, StepApplied("shop", 1)):
        notes.emit(event)
        assert rolls(kube) == "shop/cache,shop/db"
    assert anna.renew() and rolls(kube) == "shop/cache,shop/db"
    notes.emit(ends)
    assert rolls(kube) == ""
    notes.emit(StepInspected("unknown", True, "of a run that was begun with another pipeline"))
    assert rolls(kube) == ""


def test_groups_that_cannot_be_noted_are_noted_by_the_next_renewal() -> None:
    """An API that doesn't answer ends no step."""
    kube, clock = FakeKube(), Time()
    anna = take(kube, clock, ANNA)
    kube.unavailable = True
    anna.let_roll(["shop/db"])
    kube.unavailable = False
    assert rolls(kube) == "" and anna.renew() and rolls(kube) == "shop/db"
    found: Any = kube.get(LEASES, NAME, NAMESPACE)
    read = Lease.read(found).holder
    assert read is not None and read.groups == ("shop/db",)
