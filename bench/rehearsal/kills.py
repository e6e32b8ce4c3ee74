"""Rehearsals that were killed: what was left of each, as a record and as a section of docs/benchmarks/rehearsal.md."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.places import RESULTS

__all__ = ["FILE", "KINDS", "Killed", "Kills", "lines", "recorded", "table"]

FILE = RESULTS / "rehearsal-kills.json"
KINDS = {"command": "the command", "unit": "the unit's processes", "power": "power off"}
"""What is killed → in words."""
_PLACES = {"controller": "the controller", "host": "the other host"}
_HEAD = """
| killed | moments, by what was under way | processes gone within | files until the next command | left after it |
|---|---|---:|---|---|
"""
_SECTION = (
    "`python -m bench.rehearsal_kills` ({date}, `{commit}`): rehearsals of {whole:.0f} s on another host ({unit:.0f} s "
    "in its unit), killed at moments over their whole length, without a kubelet: the pod that takes the snapshot isn't "
    "tested. The next `rehearse` removes what remains on a host, and the next `backup` or `restore` what remains on a "
    "controller. Of {writes:,} writes of etcd's client, {others} met a revision that wasn't its own."
)


@dataclass(frozen=True)
class Killed:
    """One kill: at which second of the rehearsal (or of its unit), in which phase, and what remained of it."""

    kind: str
    at: float
    phase: str
    seconds: float
    """Until nothing was left but what the next command removes."""
    kept: tuple[str, ...] = ()
    """Which of `controller` and `host` had files until then."""
    left: tuple[str, ...] = ()
    """What was left after it, if anything."""


@dataclass(frozen=True)
class Kills:
    """All kills of one measurement."""

    whole: float
    """Seconds of a rehearsal that isn't killed."""
    unit: float
    writes: int
    """Of etcd's client."""
    others: int
    """Revisions that were not its writes."""
    date: str
    commit: str
    killed: tuple[Killed, ...]


def recorded() -> Kills | None:
    """The last measurement."""
    if not FILE.exists():
        return None
    found = json.loads(FILE.read_text())
    killed = (Killed(**{**each, "kept": tuple(each["kept"]), "left": tuple(each["left"])}) for each in found["killed"])
    return Kills(**{**found, "killed": tuple(killed)})


def table(killed: Sequence[Killed]) -> str:
    """Markdown: one row for each."""
    rows = ["| killed | at | phase | processes gone after | until the next command | left after it |"]
    rows.append("|---|---:|---|---:|---|---|")
    for each in killed:
        kept, left = (", ".join(some) or "nothing" for some in (each.kept, each.left))
        rows.append(f"| {each.kind} | {each.at:.1f} s | {each.phase} | {each.seconds:.1f} s | {kept} | {left} |")
    return "\n".join(rows)


def lines(kills: Kills | None) -> list[str]:
    """The section of the page: one row for each kind; none without a measurement."""
    if kills is None:
        return []
    text = _SECTION.format(**{name: getattr(kills, name) for name in _NAMES})
    rows = [_row(kind, [each for each in kills.killed if each.kind == kind]) for kind in KINDS]
    wrapped = (f"{line}\n" for line in textwrap.wrap(text, 120, break_on_hyphens=False))
    return ["\n## Killed rehearsals\n\n", *wrapped, _HEAD, *rows]


def _row(kind: str, killed: Sequence[Killed]) -> str:
    phases = Counter(each.phase for each in killed)
    under_way = "; ".join(f"{name} {count}" for name, count in phases.items())
    kept = Counter(_PLACES[place] for each in killed for place in each.kept)
    remained = ", ".join(f"on {place} {count}" for place, count in sorted(kept.items())) or "none"
    left = ", ".join(f"**{what}**" for each in killed for what in each.left) or "nothing"
    longest = max((each.seconds for each in killed), default=0.0)
    return f"| {KINDS[kind]} | {len(killed)}: {under_way} | {longest:.0f} s | {remained} | {left} |\n"


_NAMES = ("whole", "unit", "writes", "others", "date", "commit")
