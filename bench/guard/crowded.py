"""How much memory guard needs, and how fast it is, with 2,000 StatefulSets and 20,000 pods."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.guard.crowd import Crowd, budget, crowded
from bench.guard.page import Reached
from bench.guard.programs import AGGREGATOR, CROWDED, Replica
from bench.guard.sets import Sets
from bench.guard.site import BUDGETS, PROTECTORS, Site

__all__ = ["among_many"]

_COUNTED = "crowd-0000"
_MOST_SECONDS = 300.0
"""For one deletion: on a busy machine, too slow is a result."""


def among_many(site: Site, crowd: Crowd, rolls: int) -> Iterator[Reached]:
    """The last measure on a site, as its objects stay. Memory is told twice: once all are listed, and at the end."""
    begun = time.monotonic()
    crowded(site.kubeconfig, crowd)
    made = time.monotonic() - begun
    yield from _rolled(site, crowd, rolls, made)
    yield _counted(site, crowd)


def _rolled(site: Site, crowd: Crowd, rolls: int, made: float) -> Iterator[Reached]:
    """A group of six sets is rolled among the others."""
    sets, load, seconds = Sets(site, "zones", "abcdef"), os.getloadavg()[0], list[float]()
    sets.create()
    site.kube.create(BUDGETS, budget(sets.group), "shop")
    begun = time.monotonic()
    with site.started("crowded", CROWDED) as guard:
        listed = time.monotonic() - begun
        what = f"{crowd.sets} sets in groups of {crowd.zones} with a budget each, {crowd.pods} pods"
        yield Reached("listed", listed, f"{what}; these were made in {made:.0f} s", max(load, os.getloadavg()[0]))
        yield Reached("memory", _status(guard, "VmHWM"), "after its start", max(load, os.getloadavg()[0]))
        for number in range(rolls):
            seconds += sets.roll(f"v{number + 2}", seconds=_MOST_SECONDS)
        peak, last = _status(guard, "VmHWM"), _status(guard, "VmRSS")
    sets.remove()
    site.kube.delete(BUDGETS, sets.group, "shop")
    load = max(load, os.getloadavg()[0])
    yield Reached("memory", peak, f"from its start through {len(seconds)} deletions; {last:.0f} MiB at the end", load)
    yield Reached("event", max(seconds), f"{len(seconds)} times; median {median(seconds):.2f} s", load)


def _counted(site: Site, crowd: Crowd) -> Reached:
    """The role that counts has listed all pods once it has counted those of one protector."""
    load = os.getloadavg()[0]
    site.protector(_COUNTED, _COUNTED, 1)
    begun = time.monotonic()
    with site.started("counting", AGGREGATOR) as guard:
        site.wait_counted([_COUNTED], crowd.pods_of_each)
        took, peak, last = time.monotonic() - begun, _status(guard, "VmHWM"), _status(guard, "VmRSS")
    site.kube.delete(PROTECTORS, _COUNTED, "shop")
    how = f"{crowd.pods} pods, counted {took:.1f} s after its start; {last:.0f} MiB at the end"
    return Reached("counting", peak, how, max(load, os.getloadavg()[0]))


def _status(guard: Replica, key: str) -> float:
    """Of a process' memory, in MiB; `VmHWM` is its peak."""
    lines = Path(f"/proc/{guard.pid}/status").read_text().splitlines()
    (found,) = (line for line in lines if line.startswith(f"{key}:"))
    return int(found.split()[1]) / 1024
