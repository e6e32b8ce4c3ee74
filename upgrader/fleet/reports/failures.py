"""Clusters that failed, or can't be begun, by what was the matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from upgrader.fleet.causes import cause_of
from upgrader.fleet.reports.to_do import ToDo, to_do
from upgrader.fleet.use_cases import FleetStatus
from upgrader.reporting.report.headline import Tone

__all__ = ["Cause", "causes", "tone_of"]

_TONES: dict[str, Tone] = {
    "waiting": "idle",
    "skipped": "idle",
    "running": "active",
    "succeeded": "good",
    "rolled-back": "back",
    "blocked": "bad",
    "broken": "bad",
    "interrupted": "open",
}


@dataclass(frozen=True)
class Cause:
    """Clusters that were stopped by the same thing."""

    tone: Tone
    what: str
    """`rolled-back`, `unreachable`, …"""
    clusters: tuple[str, ...]
    text: str
    """What the first one's error says."""
    to_do: tuple[ToDo, ...] = ()
    """As of `to_do`, with commands for the fleet folder, as all of a page are."""


def tone_of(phase: str) -> Tone:
    """Of a cluster's phase."""
    return _TONES[phase]


def causes(status: FleetStatus) -> tuple[Cause, ...]:
    """Most clusters first. A cluster that is interrupted, and begun again by itself, is among them."""
    found: dict[tuple[str, str], list[tuple[str, Tone, str]]] = {}
    for cluster in chain.from_iterable(status.fleet.listed.values()):
        each = status.state.clusters[cluster.name]
        if each.failed or each.phase == "interrupted":
            cause = each.cause or cause_of("", each.reason, each.name)
            found.setdefault((each.phase, cause), []).append((each.name, tone_of(each.phase), each.reason))
        if each.problem and each.phase not in ("succeeded", "skipped"):
            cause = cause_of("", each.problem_reason, each.name)
            found.setdefault((each.problem, cause), []).append((each.name, "open", each.problem_reason))
    groups = [
        Cause(
            members[0][1],
            what,
            names := tuple(name for name, _, _ in members),
            members[0][2] or "no reason is known",
            _way_out(what, names, status),
        )
        for (what, _), members in found.items()
    ]
    return tuple(sorted(groups, key=lambda group: -len(group.clusters)))


def _way_out(what: str, names: Sequence[str], status: FleetStatus) -> tuple[ToDo, ...]:
    """Of those that have failed: one that is interrupted may be begun again by itself."""
    clusters = (status.state.clusters[name] for name in names)
    failed = [each.name for each in clusters if each.failed and each.phase == what]
    home = status.campaign.folder.parent.parent if status.campaign else None
    return to_do(failed, status, home) if failed else ()
