"""The cluster's lock around a command: taken before the cluster is looked at, given back on every way out."""

from __future__ import annotations

import getpass
import os
import secrets
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from upgrader.cli.wiring import Session
from upgrader.engine.execution.stop_request import StopRequest
from upgrader.engine.locks.cluster_lock import ClusterLock, acquire
from upgrader.engine.locks.folder_lock import lock_identity
from upgrader.engine.locks.heartbeat import kept_alive
from upgrader.engine.locks.lease import LEASE_SECONDS, Holder

__all__ = ["TAKE_OVER", "HeldLock", "cluster_lock", "lock_holder"]

TAKE_OVER = click.option(
    "--take-over",
    is_flag=True,
    help="Take the cluster's lock from a run that is known to be dead, without waiting to see it.",
)


@dataclass(frozen=True)
class HeldLock:
    """The cluster's lock, and the request to stop that is made when somebody else takes it."""

    lock: ClusterLock
    stop: StopRequest


def lock_holder() -> str:
    """Who we are, for whoever meets our lock."""
    return f"{getpass.getuser()}@{socket.gethostname()} (process {os.getpid()})"


@contextmanager
def cluster_lock(session: Session, *, take_over: bool) -> Iterator[HeldLock]:
    """Hold the cluster's lock; the folder's must be held already. Raises Locked when somebody else is at work."""
    tools, stop = session.tools, StopRequest()
    # A process may have had the same number before, on a machine that lost its power.
    holder = Holder(f"{lock_holder()} {secrets.token_hex(3)}", lock_identity(session.settings.folder))
    with _ended_in_order():
        lock = acquire(
            tools.kube,
            tools.clock,
            holder,
            take_over=take_over,
            note=lambda text: click.echo(text, err=True),
            unread=lambda dead: _unread(session, dead),
        )
        try:
            with kept_alive(lock, lambda other: stop.forbid(f"the cluster's lock was taken over by {other}")):
                yield HeldLock(lock, stop)
        finally:
            if not lock.release():
                click.echo(
                    "The cluster's lock could not be given back, as the API does not answer: other machines will "
                    f"wait {LEASE_SECONDS} s before they take it.",
                    err=True,
                )


def _unread(session: Session, dead: Holder) -> str:
    """Why it is not known what a dead holder did; "" when its journal was found, or it had not begun a run."""
    if not dead.run or session.find_runs().get(dead.run) is not None:
        return ""
    return f"the journal of its run {dead.run} is neither here nor in the cluster nor on a controller"


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let SIGTERM and a closed terminal end the command as Ctrl-C does, so that the lock is given back."""
    before = {each: signal.signal(each, signal.default_int_handler) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
