"""One run at a time for each cluster, whichever machine and folder it comes from.

Exactly one holder: every change of the Lease names the version that it was read at, and the API refuses all but the
first. A holder that lives renews; one that doesn't is replaced when *we* have watched its Lease unchanged for as long
as it asked to be waited for, on our own clock, with the API answering all the while. So clocks that differ don't
matter, nor does an API that is away: nobody can watch it, and nobody can take over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from upgrader.engine.locks.lease import LEASES, NAME, NAMESPACE, Holder, Lease, manifest
from upgrader.engine.state.fold import follow
from upgrader.engine.state.run_state import RunState
from upgrader.errors import ApiError, ApiUnavailable, Locked, UpgraderError
from upgrader.model.event import Event, LockTakenOver
from upgrader.ports import Clock, Kube

__all__ = ["ClusterLock", "acquire", "read_lease"]

_LOOK_SECONDS = 1.0
_PATIENCE = 3
"""How many times its holder's waiting time a Lease is watched when the API keeps going away in between."""
_RELEASE_SECONDS = 5.0


class ClusterLock:
    """The lock while it is held. `renew` is called by a thread; `emit` by the run, which tells what it does."""

    def __init__(
        self, kube: Kube, clock: Clock, holder: Holder, lease: Lease, taken_over: LockTakenOver | None
    ) -> None:
        self.taken_over = taken_over
        """Whom it was taken from, if it was; belongs into the journal."""
        self.lost_to = ""
        """Who has it now, once it was lost."""
        self._kube = kube
        self._clock = clock
        self._holder = holder
        self._lease = lease
        self._state = RunState()
        self._one = threading.Lock()

    def emit(self, event: Event) -> None:
        """Take note of what the run does; the next renewal tells it to whoever asks."""
        self._state = follow(self._state, event, self._clock.now())

    def renew(self) -> bool:
        """Say that we are alive. False once the lock is somebody else's; an API that doesn't answer loses nothing."""
        with self._one:
            try:
                self._renew()
            except UpgraderError as error:
                # 409: it was changed since we read it, by an answer of our own that we never saw, or by somebody else.
                # 404: somebody removed it. Everything else says nothing about the lock.
                if isinstance(error, ApiError) and error.status in (404, 409):
                    self._look_again()
            return not self.lost_to

    def release(self) -> bool:
        """Give it back, if it is still ours; False when that could not be done, and others have to wait it out."""
        deadline = self._clock.monotonic() + _RELEASE_SECONDS
        with self._one:
            while not self.lost_to:
                free = manifest(
                    None,
                    now=self._clock.now(),
                    transitions=self._lease.transitions,
                    version=self._lease.version,
                )
                try:
                    self._kube.replace(LEASES, free, NAMESPACE)
                    return True
                except ApiError as error:
                    if error.status == 409:
                        self._look_again()
                    elif error.status == 404:
                        return True
                if self._clock.monotonic() >= deadline:
                    return False
                self._clock.sleep(_LOOK_SECONDS)
        return True

    def _renew(self) -> None:
        holder = replace(self._holder, run=self._state.run, doing=self._state.doing)
        self._lease = _hold(self._kube, self._clock, holder, self._lease, acquired=self._lease.acquired)

    def _look_again(self) -> None:
        try:
            found = read_lease(self._kube)
            if found is None:
                self._lease = _create(self._kube, self._clock, self._holder)
            elif found.holder is not None and found.holder.identity == self._holder.identity:
                self._lease = found
            else:
                self.lost_to = str(found.holder or "nobody: somebody has released it")
        except ApiError:
            # The next renewal will see.
            return


def acquire(
    kube: Kube,
    clock: Clock,
    holder: Holder,
    *,
    take_over: bool,
    note: Callable[[str], None],
    unread: Callable[[Holder], str] = lambda _: "",
) -> ClusterLock:
    """Take the cluster's lock, waiting only to see whether another holder is alive.

    `take_over` takes it from a holder that may be. `unread` says why a dead holder's journal could not be read; "" when
    it was: nobody goes on where nobody knows what was done. Raises Locked when somebody else is at work, or was and
    can't be read, and ApiError when the API refuses or doesn't answer at all.
    """
    watched: Lease | None = None
    since = began = clock.monotonic()
    while True:
        try:
            lease = read_lease(kube)
            if lease is None:
                return ClusterLock(kube, clock, holder, _create(kube, clock, holder), None)
            if lease.holder is None:
                return _take(kube, clock, holder, lease, None)
            if lease.holder.identity == holder.identity:
                # We have it since a request whose answer never came.
                return ClusterLock(kube, clock, holder, lease, None)
            if take_over:
                return _take(kube, clock, holder, lease, "forced")
            if holder.folder_lock and lease.holder.folder_lock == holder.folder_lock:
                # Its process held the lock of the very file that we hold now: it is gone.
                _check_read(lease.holder, unread)
                return _take(kube, clock, holder, lease, "its process is gone")
            now = clock.monotonic()
            if watched is None:
                note(f"The cluster's lock is held by {lease.holder}: looking whether it is alive")
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
            # What wasn't seen isn't counted. An API that never answered is no reason to wait here.
            if watched is None or clock.monotonic() - began >= _PATIENCE * watched.seconds:
                raise
            since = clock.monotonic()
        except ApiError as error:
            if error.status != 409:
                raise
            # Somebody else was quicker; who, the next look says.
        clock.sleep(_LOOK_SECONDS)


def _check_read(dead: Holder, unread: Callable[[Holder], str]) -> None:
    problem = unread(dead)
    if problem:
        raise Locked(
            f"the cluster's lock is still that of {dead}, which gives no sign of life; but {problem}",
            remedy="Find its journal, on the machine that it ran on or on a controller that is away now; or take the "
            "lock without knowing what it did: --take-over.",
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


def _create(kube: Kube, clock: Clock, holder: Holder) -> Lease:
    return Lease.read(kube.create(LEASES, manifest(holder, now=clock.now()), NAMESPACE))


def _hold(kube: Kube, clock: Clock, holder: Holder, lease: Lease, *, acquired: str) -> Lease:
    mine = manifest(holder, now=clock.now(), acquired=acquired, transitions=lease.transitions, version=lease.version)
    return Lease.read(kube.replace(LEASES, mine, NAMESPACE))


def _locked(holder: Holder, lease: Lease) -> Locked:
    return Locked(
        f"this cluster is being upgraded by {holder}\nsince {lease.acquired[:19]}Z, by that machine's clock",
        remedy="Wait for it to end, or stop it there. If it is known to be dead: --take-over.",
    )
