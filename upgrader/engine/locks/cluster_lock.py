"""One run at a time for each cluster, whichever machine and folder it comes from.

There is exactly one holder: every change of the Lease names the version that it was read at, and the API refuses all
but the first. A live holder renews. A dead one is replaced once *we* have watched its Lease unchanged for its lease
duration, on our own clock, with the API answering all the time. So clocks may differ, and while the API is unreachable
no lock is taken over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import replace

from upgrader.engine.locks.lease_object import LEASES, NAME, NAMESPACE, Holder, Lease, manifest
from upgrader.engine.state.event_fold import follow
from upgrader.engine.state.run_state import RunState
from upgrader.errors import ApiError, ApiUnavailable, Locked, UpgraderError
from upgrader.model.event import Event, LockTakenOver
from upgrader.ports import Clock, Kube
from upgrader.wait_and_retry import wait_until

__all__ = ["ClusterLock", "acquire", "read_lease"]

_POLL_SECONDS = 1.0
_PATIENCE = 3
"""For how many lease durations a Lease is watched when the API keeps becoming unreachable."""
_RELEASE_SECONDS = 5.0
_MOST_CONFLICTS = 10
"""A rival that was quicker has the lock by the next read: what conflicts more often, such as a webhook, is none."""


class ClusterLock:
    """The lock while it is held. A thread calls `renew`; the run calls `emit` with its events."""

    def __init__(
        self, kube: Kube, clock: Clock, holder: Holder, lease: Lease, taken_over: LockTakenOver | None
    ) -> None:
        self.taken_over = taken_over
        """Whom it was taken over from, if it was; belongs in the journal."""
        self.lost_to = ""
        """Who holds it now, once it was lost."""
        self._kube = kube
        self._clock = clock
        self._holder = holder
        self._lease = lease
        self._state = RunState()
        self._groups: tuple[str, ...] = ()
        self._mutex = threading.Lock()
        self._confirmed = clock.monotonic()

    @property
    def owner(self) -> str:
        """The unique name of this process, as the lock names it."""
        return self._holder.identity

    @property
    def sequence(self) -> int:
        """How often the lock has been taken: a number that grows from holder to holder, whatever their clocks say."""
        return self._lease.transitions + 1

    @property
    def unconfirmed_seconds(self) -> float:
        """For how long the API has not confirmed that the lock is ours."""
        return self._clock.monotonic() - self._confirmed

    def emit(self, event: Event) -> None:
        """Record what the run does; the next renewal publishes it in the Lease."""
        self._state = follow(self._state, event, self._clock.now())

    def let_roll(self, groups: Collection[str]) -> None:
        """Say in the Lease which groups of StatefulSets (`NAMESPACE/GROUP`) guard may roll from now on.

        Returns once the API has it, as guard refuses meanwhile what a step may need; where the API can't be reached,
        the next renewal says it.
        """
        wanted = tuple(sorted(groups))
        if wanted != self._groups:
            self._groups = wanted
            self.renew()

    def renew(self) -> bool:
        """Show that we are alive. False once another process holds the lock; an unreachable API doesn't lose it."""
        with self._mutex:
            try:
                self._renew()
            except UpgraderError as error:
                # 409: it was changed since we read it, by our own request whose answer was lost, or by another process.
                # 404: it was deleted. Other errors don't concern the lock.
                if isinstance(error, ApiError) and error.status in (404, 409):
                    self._reread()
            return not self.lost_to

    def release(self, note: Callable[[str], None] = lambda _: None) -> bool:
        """Release the lock if it is still ours; False when that failed, and others must wait for it to expire."""
        with self._mutex:
            return not wait_until(
                self._clock,
                self._still_held,
                seconds=_RELEASE_SECONDS,
                interval_seconds=_POLL_SECONDS,
                what="the cluster's lock to be released",
                note=note,
            )

    def _still_held(self) -> str:
        """Try to release; "" once the lock is free, or held by another process."""
        if self.lost_to:
            return ""
        now, lease = self._clock.now(), self._lease
        free = manifest(None, now=now, transitions=lease.transitions, version=lease.version)
        try:
            self._kube.replace(LEASES, free, NAMESPACE)
        except ApiError as error:
            if error.status == 409:
                self._reread()
            if error.status != 404:
                return error.message or "the API server gave no reason"
        return ""

    def _renew(self) -> None:
        holder = replace(self._holder, run=self._state.run, doing=self._state.doing, groups=self._groups)
        # The time before the request: others count from when it arrived.
        asked = self._clock.monotonic()
        self._lease = _hold(self._kube, self._clock, holder, self._lease, acquired=self._lease.acquired)
        self._confirmed = asked

    def _reread(self) -> None:
        try:
            found = read_lease(self._kube)
            if found is None:
                self._lease = _create(self._kube, self._clock, self._holder, self._lease.transitions)
            elif found.holder is not None and found.holder.identity == self._holder.identity:
                self._lease = found
            else:
                self.lost_to = str(found.holder or "another process that has already released it")
        except ApiError:
            # The next renewal tries again.
            return


def acquire(
    kube: Kube,
    clock: Clock,
    holder: Holder,
    *,
    take_over: bool,
    note: Callable[[str], None],
    known: int = 0,
    unread: Callable[[Holder], str] = lambda _: "",
) -> ClusterLock:
    """Take the cluster's lock, waiting only to see whether another holder is alive.

    `known` is the highest number of a run that is known here: a Lease that was deleted, or restored from a backup,
    continues from it, so that the next reader continues as well. `take_over` takes it from a holder that may be alive.
    `unread` returns why a dead holder's journal could not be read, "" if it was: what a dead run did must be known
    first. Raises Locked when the holder is alive or its journal can't be read, and ApiError when the API refuses or
    doesn't answer at all.
    """
    watched: Lease | None = None
    since = began = clock.monotonic()
    conflicts = 0
    while True:
        try:
            lease = read_lease(kube)
            if lease is None:
                return ClusterLock(kube, clock, holder, _create(kube, clock, holder, known), None)
            lease = replace(lease, transitions=max(lease.transitions, known - 1))
            if lease.holder is None:
                return _take(kube, clock, holder, lease, None)
            if lease.holder.identity == holder.identity:
                # Ours already, from a request whose answer was lost.
                return ClusterLock(kube, clock, holder, lease, None)
            if take_over:
                return _take(kube, clock, holder, lease, "forced")
            if holder.folder_lock and lease.holder.folder_lock == holder.folder_lock:
                # Its process held the same file lock that we hold now, so it has ended.
                _check_read(lease.holder, unread)
                return _take(kube, clock, holder, lease, "its process has ended")
            now = clock.monotonic()
            if watched is None:
                note(f"The cluster's lock is held by {lease.holder}: checking whether that process is alive")
            elif watched.sign_of_life != lease.sign_of_life:
                raise _locked(lease.holder, lease)
            elif now - since >= lease.seconds:
                _check_read(lease.holder, unread)
                return _take(kube, clock, holder, lease, f"no sign of life for {lease.seconds:.0f} s")
            elif now - began >= _PATIENCE * lease.seconds:
                raise _locked(lease.holder, lease)
            if watched is None:
                watched, since = lease, now
        except ApiUnavailable:
            # Time without an API doesn't count. Don't wait here for an API that never answered.
            if watched is None or clock.monotonic() - began >= _PATIENCE * watched.seconds:
                raise
            since = clock.monotonic()
        except ApiError as error:
            conflicts += 1
            if error.status != 409 or conflicts >= _MOST_CONFLICTS:
                raise
            # Another process was quicker; the next read shows which.
        clock.sleep(_POLL_SECONDS)


def _check_read(dead: Holder, unread: Callable[[Holder], str]) -> None:
    problem = unread(dead)
    if problem:
        raise Locked(
            f"the cluster's lock is held by {dead}, which no longer renews it, but {problem}",
            remedy="Find its journal, on the machine where it ran or on an unreachable controller. To take over the "
            "lock without knowing what it did, add --take-over.",
        )


def _take(kube: Kube, clock: Clock, holder: Holder, lease: Lease, why: str | None) -> ClusterLock:
    taken = replace(lease, transitions=lease.transitions + 1)
    event = None
    if why is not None and lease.holder is not None:
        event = LockTakenOver(str(lease.holder), lease.acquired, lease.renewed, why)
    return ClusterLock(kube, clock, holder, _hold(kube, clock, holder, taken, acquired=""), event)


def read_lease(kube: Kube) -> Lease | None:
    """The cluster's lock as it is; None when it was never taken. Raises ApiError."""
    found = kube.get(LEASES, NAME, NAMESPACE)
    return None if found is None else Lease.read(found)


def _create(kube: Kube, clock: Clock, holder: Holder, transitions: int) -> Lease:
    return Lease.read(kube.create(LEASES, manifest(holder, now=clock.now(), transitions=transitions), NAMESPACE))


def _hold(kube: Kube, clock: Clock, holder: Holder, lease: Lease, *, acquired: str) -> Lease:
    mine = manifest(holder, now=clock.now(), acquired=acquired, transitions=lease.transitions, version=lease.version)
    return Lease.read(kube.replace(LEASES, mine, NAMESPACE))


def _locked(holder: Holder, lease: Lease) -> Locked:
    return Locked(
        f"another run is active on this cluster: {holder}\nsince {lease.acquired[:19]}Z, by the clock of its machine",
        remedy="Wait for it to end, or stop it there; `upgrader status` shows what it is doing. If you know that it "
        "is dead, add --take-over.",
    )
