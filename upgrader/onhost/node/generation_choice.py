"""Which generation to start: the one rule, for the pod-checkpointer and for a recovery over SSH.

Only an intact generation is ever started. Of those, one whose images are all on the node comes first, as a registry may
be as unreachable as the API; then one that isn't marked as failed, which means that it was started as a standby pod and
didn't stay up; then the newest.

Where nothing better is left, the pod-checkpointer starts a generation that failed, or whose images are missing: it is
the last resort, watches what it started, and keeps on observing. A recovery doesn't (`restorable`): an operator watches
it, who can fix the cause, and whose time a start that is known to fail would cost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from upgrader.onhost.node.workload_policy import Policy


class Startable(Protocol):
    """What the rule goes by, of a generation on disk. `has_images`: None when that isn't known."""

    @property
    def number(self) -> int: ...

    @property
    def intact(self) -> bool: ...

    @property
    def has_images(self) -> bool | None: ...

    @property
    def failed(self) -> bool: ...


G = TypeVar("G", bound=Startable)


def best(generations: Iterable[G], also_failed: Collection[int] = ()) -> G | None:
    """The one to start. `also_failed`: numbers of those that have failed and aren't marked yet."""

    def rank(generation: G) -> tuple[bool, bool, int]:
        failed = generation.failed or generation.number in also_failed
        return generation.has_images is not False, not failed, generation.number

    return max((g for g in generations if g.intact), key=rank, default=None)


def restorable(generations: Iterable[G], also_failed: Collection[int] = ()) -> G | None:
    """The one that a recovery starts: the best, unless even that is known not to come up."""
    found = best(generations, also_failed)
    in_vain = found is None or found.has_images is False or found.failed or found.number in also_failed
    return None if in_vain else found


def last_good(generations: Iterable[G]) -> G | None:
    """The last-known-good: the newest intact one that isn't marked as failed; the newest where all are."""
    return max((g for g in generations if g.intact), key=lambda g: (not g.failed, g.number), default=None)


@dataclass(frozen=True)
class Generation:
    """A generation on disk, as a decision sees it.

    `intact`: every file is there and has the recorded checksum. `has_images`: whether the node has all its images; None
    when that isn't known. `failed`: it was started as a standby pod, and didn't stay up.
    """

    number: int
    digest: str
    intact: bool = True
    has_images: bool | None = None
    failed: bool = False


@dataclass(frozen=True)
class WorkloadInventory:
    """What the disk has of one workload. `generations` ascend by number.

    `active`: our manifest is where the kubelet reads it. `active_number`: the generation whose manifest it is byte for
    byte; None when it is that of none.
    """

    policy: Policy
    generations: tuple[Generation, ...] = ()
    active: bool = False
    active_number: int | None = None

    @property
    def intact(self) -> tuple[Generation, ...]:
        """Generations that can be started, oldest first."""
        return tuple(g for g in self.generations if g.intact)

    @property
    def last_good(self) -> Generation | None:
        """See `last_good`."""
        return last_good(self.generations)

    @property
    def best(self) -> Generation | None:
        """See `best`."""
        return best(self.generations)
