"""How much memory guard needs, and how fast it is, with 2,000 StatefulSets and 20,000 pods."""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median

from bench.guard.crowd import Crowd, budget, crowded
from bench.guard.page import Reached
from bench.guard.programs import AGGREGATOR, CROWDED, Replica
from bench.guard.sets import Sets
from bench.guard.site import BUDGETS, PROTECTORS, Site

__all__ = ["among_many"]

_COUNTED = "crowd-0000"


def among_many(site: Site, crowd: Crowd, rolls: int) -> list[Reached]:
    """The last measure on a site, as its objects stay."""
    begun = time.monotonic()
    crowded(site.kubeconfig, crowd)
    made = time.monotonic() - begun
    return [*_rolled(site, crowd, rolls, made), _counted(site, crowd)]


def _rolled(site: Site, crowd: Crowd, rolls: int, made: float) -> list[Reached]:
    """A group of six sets is rolled among the others."""
    sets, load, seconds = Sets(site, "zones", "abcdef"), os.getloadavg()[0], list[float]()
    sets.create()
    site.kube.create(BUDGETS, budget(sets.group), "shop")
    begun = time.monotonic()
    with site.started("crowded", CROWDED) as guard:
        listed = time.monotonic() - begun
        for number in range(rolls):
            seconds += sets.roll(f"v{number + 2}")
        peak, last = _status(guard, "VmHWM"), _status(guard, "VmRSS")
    sets.remove()
    site.kube.delete(BUDGETS, sets.group, "shop")
    load = max(load, os.getloadavg()[0])
    what = f"{crowd.sets} sets in groups of {crowd.zones} with a budget each, {crowd.pods} pods"
    return [
        Reached("memory", peak, f"{what}; {last:.0f} MiB at the end; made in {made:.0f} s", load),
        Reached("listed", listed, "of the same", load),
        Reached("event", max(seconds), f"{len(seconds)} times; median {median(seconds):.2f} s", load),
    ]


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
