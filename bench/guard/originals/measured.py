"""How long each makes others wait: the measures of `make bench-guard`, shorter, one side right after the other."""

from __future__ import annotations

from collections.abc import Callable

from bench.guard.measures import deletions, ready_to_deletion, webhook
from bench.guard.originals.case import Case
from bench.guard.originals.side import Side
from bench.guard.page import LIMITS, Reached
from bench.guard.site import PODS, Site

__all__ = ["MEASURES"]

_SECONDS = 10.0
_ROLLS = 2


def _taken(measure: Callable[[Site], list[Reached]]) -> Callable[[Side], str]:
    def run(side: Side) -> str:
        found = measure(side.site)
        for pod in side.site.kube.list(PODS, "shop"):
            side.site.kube.delete(PODS, pod["metadata"]["name"], "shop")
        values = ", ".join(f"**{_shown(each.value)} {LIMITS[each.limit].unit}**".replace(" **", "**") for each in found)
        return f"{values}; {found[0].how}; load average {found[0].load_average:.0f}"

    return run


def _shown(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


MEASURES = (
    Case(
        "webhook",
        "webhook that reserves nothing (no-downscale), 500 requests a second, p99",
        _taken(lambda site: webhook(site, 500, _SECONDS)),
    ),
    Case(
        "deletion",
        "deletion that is reserved, 200 a second on 50 protectors: p99, and writes for each",
        _taken(lambda site: deletions(site, 200, _SECONDS, 50)[:2]),
    ),
    Case(
        "ready",
        "from a pod's Ready to the next zone's deletion, the longest",
        _taken(lambda site: ready_to_deletion(site, _ROLLS)),
    ),
)
