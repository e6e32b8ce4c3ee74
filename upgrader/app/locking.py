"""The cluster's lock around a use case: taken before the cluster is read, released however it ends."""

from __future__ import annotations

import getpass
import os
import secrets
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from upgrader.app.front_end import FrontEnd
from upgrader.app.wiring import Session, system_clock
from upgrader.engine.execution.stop_request import StopRequest
from upgrader.engine.history.past_runs import highest_sequence
from upgrader.engine.locks.cluster_lock import ClusterLock, acquire
from upgrader.engine.locks.folder_lock import folder_lock, lock_identity
from upgrader.engine.locks.heartbeat import kept_alive
from upgrader.engine.locks.lease_object import LEASE_SECONDS, Holder

__all__ = ["HeldLock", "cluster_lock", "lock_holder", "locked_folder", "own_name"]


@dataclass(frozen=True)
class HeldLock:
    """The cluster's lock, and the request to stop that is made when the lock is lost."""

    lock: ClusterLock
    stop: StopRequest

    def confirm(self) -> None:
        """Ask whether the lock is still ours; if it isn't, the run begins nothing more."""
        if not self.lock.renew():
            self.lost_to(self.lock.lost_to)

    def lost_to(self, other: str) -> None:
        """Begin nothing more."""
        self.stop.forbid(f"the cluster's lock was taken over by {other}")


def own_name() -> str:
    """This user, at this machine: for locks, and for the journal of who approved or resumed."""
    return f"{_user()}@{socket.gethostname()}"


def _user() -> str:
    """By number where it has no name, as in a container that runs as any user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # which of them: a matter of Python's version
        return f"uid-{os.getuid()}"


def lock_holder() -> str:
    """This process, as its locks name it."""
    return f"{own_name()} (process {os.getpid()})"


def locked_folder(folder: Path) -> AbstractContextManager[None]:
    """Hold the folder's lock, which keeps other processes of this machine out; raises Locked."""
    return folder_lock(folder, lock_holder(), system_clock())


@contextmanager
def cluster_lock(session: Session, front_end: FrontEnd, *, take_over: bool) -> Iterator[HeldLock]:
    """Hold the cluster's lock; the folder's must be held already. Raises Locked when another process holds it."""
    tools, stop = session.tools, StopRequest()
    # Random, as another process may have had the same number before a reboot.
    holder = Holder(f"{lock_holder()} {secrets.token_hex(3)}", lock_identity(session.settings.folder))
    with _release_on_signals():
        lock = acquire(
            tools.kube,
            tools.clock,
            holder,
            take_over=take_over,
            note=front_end.notify,
            known=_newest_number(session),
            unread=lambda dead: _unread(session, dead),
        )
        held = HeldLock(lock, stop)
        try:
            with kept_alive(lock, held.lost_to):
                session.fence.hold(lock, front_end.notify)
                # Gates want to see each kubelet's heartbeat change, every 10 s: what is read until then takes as long.
                session.builder.gates.health.glance()
                yield held
        finally:
            if not lock.release(front_end.notify):
                front_end.notify(
                    "The cluster's lock could not be released, because the API does not answer: other machines will "
                    f"wait {LEASE_SECONDS} s before they take it."
                )


def _newest_number(session: Session) -> int:
    """The highest number of a run that is known: in this folder, or elsewhere for a folder without runs, as CI has."""
    here = highest_sequence(session.settings.folder / "runs")
    return here or max((run.state.sequence for run in session.find_runs().runs), default=0)


def _unread(session: Session, dead: Holder) -> str:
    """Why it is not known what a dead holder did; "" when its journal was found, or it had not begun a run."""
    if not dead.run or session.find_runs().get(dead.run) is not None:
        return ""
    return f"the journal of its run {dead.run} was not found in this folder, in the cluster or on a controller"


@contextmanager
def _release_on_signals() -> Iterator[None]:
    """Let SIGTERM and a closed terminal end the process as Ctrl-C does, so that the lock is released.

    Outside the main thread, signals are left to the caller.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, signal.default_int_handler) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
