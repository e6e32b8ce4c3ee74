"""The fencing token on the controllers' disks: who may run playbooks there.

The cluster's lock is in the API. A holder that the API doesn't reach doesn't learn that another process has taken its
lock, while its playbook still reaches the machines over SSH. So the token is where playbooks work. Who takes the lock
over raises it on the controllers, and waits until the former holder has had the time to see that and to end its
playbook. A playbook begins only under a confirmed lock, and with no higher token on any controller.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TypeVar

from upgrader.engine.locks.cluster_lock import ClusterLock
from upgrader.errors import HostError, Interrupted, PlaybookError
from upgrader.model.cluster import Host
from upgrader.model.event import LockTakenOver
from upgrader.ports import Clock, Hosts
from upgrader.wait_and_retry import wait_for_hosts

__all__ = ["NOTICE_SECONDS", "UNCONFIRMED_SECONDS", "Fence", "Token"]

T = TypeVar("T")

UNCONFIRMED_SECONDS = 15.0
"""How long a lock may go without a renewal before the tokens are read: long before another process can take it over."""

NOTICE_SECONDS = 30.0
"""How long a former holder may take to see a higher token, or the taken lock, and to end its playbook."""

_FOLDER = "/etc/kubernetes/upgrader"
_FILE = f"{_FOLDER}/playbook-token.json"


@dataclass(frozen=True)
class Token:
    """What a controller's file says: the highest number, whose it is, and the playbook that it runs ("": none)."""

    number: int = 0
    owner: str = ""
    playbook: str = ""


class Fence:
    """The tokens of a cluster's controllers, and this process's own."""

    def __init__(self, hosts: Hosts, controllers: tuple[Host, ...], clock: Clock) -> None:
        self.controllers = controllers
        self._hosts = hosts
        self._clock = clock
        self._lock: ClusterLock | None = None
        self._number: int | None = None
        self._note: Callable[[str], None] = lambda _: None

    def hold(self, lock: ClusterLock, note: Callable[[str], None]) -> None:
        """Work under this lock from now on; keep a former holder's playbook out if it may still run."""
        self._lock, self._note = lock, note
        if lock.taken_over is None:
            return
        found = [token for token in self._each(self.read_or_none) if token is not None]
        self._number = _highest(found) + 1
        self._each(lambda host: self._write_or_skip(host, ""))
        running = [token for token in found if token.playbook and token.owner != lock.owner]
        if running and _may_live(lock.taken_over):
            note(
                f"{running[0].owner} may still run the playbook {running[0].playbook}: waiting {NOTICE_SECONDS:.0f} s, "
                "so that it notices the loss of its lock"
            )
            self._clock.sleep(NOTICE_SECONDS)

    def enter(self, playbook: str) -> None:
        """A playbook begins. Raises Interrupted when another process holds the lock, PlaybookError when none may begin.

        Raises HostError when a controller can't be read or written: its token is unknown then. One where nothing
        answers may be rebooting, and is waited for; so is the API then, which may be its own.
        """
        why = f"before playbook {playbook} starts"
        wait_for_hosts(self._clock, lambda: self._enter(playbook), self._note, why, also=(PlaybookError,))

    def _enter(self, playbook: str) -> None:
        lock = self._held()
        lock.renew()  # always: by its own clock, a machine that slept has just done so
        if lock.lost_to:
            raise taken(playbook, lock.lost_to)
        if lock.unconfirmed_seconds > UNCONFIRMED_SECONDS:
            raise PlaybookError(
                f"playbook {playbook} was not started: the API doesn't answer, and the cluster's lock has not been "
                f"confirmed for {lock.unconfirmed_seconds:.0f} s",
                remedy="Restore the API (upgrader recover), then run `upgrader resume`.",
            )
        found = self._each(self._read)
        for token in found:
            if self._outranks(token):
                raise taken(playbook, token.owner)
        if self._number is None:
            self._number = _highest(found) + 1
        self._each(lambda host: self._write(host, playbook))

    def leave(self) -> None:
        """The playbook has ended. A controller that can't be written keeps the note: another process then waits."""
        self._each(lambda host: self._write_or_skip(host, ""))

    def outranked_on(self, host: Host) -> str:
        """Whose token on this controller is higher than ours; "" when none is, or it can't be read."""
        token = self.read_or_none(host)
        return token.owner if token is not None and self._outranks(token) else ""

    @property
    def lost_to(self) -> str:
        """Who holds the cluster's lock now, as far as the API has said; "" while it is ours."""
        return self._held().lost_to

    @property
    def unconfirmed(self) -> bool:
        """Whether the lock was not renewed for so long that the tokens must be read."""
        return self._held().unconfirmed_seconds > UNCONFIRMED_SECONDS

    def read_or_none(self, host: Host) -> Token | None:
        """The token on a controller; None when it can't be read."""
        try:
            return self._read(host)
        except HostError:
            return None

    def _held(self) -> ClusterLock:
        if self._lock is None:
            raise PlaybookError("a playbook runs only under the cluster's lock")
        return self._lock

    def _outranks(self, token: Token) -> bool:
        """Whether a token is another process's, and newer than ours; the same number follows from a damaged file."""
        return self._number is not None and token.number >= self._number and token.owner != self._held().owner

    def _read(self, host: Host) -> Token:
        content = self._hosts.read(host, _FILE)
        try:
            found = json.loads(content or b"{}")
            return Token(int(found.get("number", 0)), str(found.get("owner", "")), str(found.get("playbook", "")))
        except (ValueError, AttributeError, TypeError, OverflowError, RecursionError):
            return Token()

    def _write(self, host: Host, playbook: str) -> None:
        token = Token(self._number or 0, self._held().owner, playbook)
        self._hosts.run(host, ["install", "-d", "-m", "0700", _FOLDER])
        self._hosts.write(host, _FILE, json.dumps(asdict(token)).encode())

    def _write_or_skip(self, host: Host, playbook: str) -> None:
        try:
            self._write(host, playbook)
        except HostError:
            return

    def _each(self, work: Callable[[Host], T]) -> list[T]:
        with ThreadPoolExecutor(len(self.controllers) or 1) as pool:
            return list(pool.map(work, self.controllers))


def taken(playbook: str, other: str) -> Interrupted:
    """The error of a playbook that must not begin or go on."""
    return Interrupted(
        f"playbook {playbook} was not completed: the cluster's lock was taken over by {other}",
        remedy="Check what the other process does with `upgrader status`. Only it may continue this run.",
    )


def _highest(found: Iterable[Token]) -> int:
    return max((token.number for token in found), default=0)


def _may_live(former: LockTakenOver) -> bool:
    """Ansible ends with the process that started it."""
    return former.why != "its process has ended"
