"""Which generation is started, for both that start one."""

from __future__ import annotations

import pytest

from upgrader.onhost.node.generation_choice import Generation, best, last_good, restorable

GOOD, NEWER = Generation(1, "a", has_images=True), Generation(2, "b", has_images=True)
FAILED = Generation(2, "b", has_images=True, failed=True)
BARE = Generation(2, "b", has_images=False)
DAMAGED = Generation(2, "", intact=False)
UNSURE = Generation(2, "b", has_images=None)

CASES = {
    "the newest": ((GOOD, NEWER), 2, 2, 2),
    "an older one before one that failed": ((GOOD, FAILED), 1, 1, 1),
    "an older one before one without its images": ((GOOD, BARE), 1, 1, 2),
    "never a damaged one": ((GOOD, DAMAGED), 1, 1, 1),
    "images that are not known may be there": ((GOOD, UNSURE), 2, 2, 2),
    "all failed: the last resort, not for a recovery": ((FAILED,), 2, None, 2),
    "no image: the last resort, not for a recovery": ((BARE,), 2, None, 2),
    "images count for more than a failure": ((BARE, Generation(1, "a", has_images=True, failed=True)), 1, None, 2),
    "nothing intact": ((DAMAGED,), None, None, None),
    "nothing": ((), None, None, None),
}


@pytest.mark.parametrize(("generations", "first", "recovered", "good"), CASES.values(), ids=CASES)
def test_choice(
    generations: tuple[Generation, ...], first: int | None, recovered: int | None, good: int | None
) -> None:
    """What the pod-checkpointer starts, what a recovery starts, and what counts as the last-known-good."""
    found = best(generations), restorable(generations), last_good(generations)
    assert tuple(g.number if g else None for g in found) == (first, recovered, good)


def test_what_was_tried_counts_as_failed() -> None:
    """One that has just failed makes room for the next, and none of them is tried again by a recovery."""
    generations = (GOOD, NEWER)
    assert best(generations, {2}) == restorable(generations, {2}) == GOOD
    assert best(generations, {1, 2}) == NEWER
    assert restorable(generations, {1, 2}) is None
