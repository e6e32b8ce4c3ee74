"""What was found of each cluster, as a record and as a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.rehearsal.beside import Window
from bench.rehearsal.beside import lines as beside_lines
from bench.rehearsal.cases import MEASURED, Case
from bench.rehearsal.kills import Kills
from bench.rehearsal.kills import lines as kills_lines

__all__ = ["Row", "page"]

_MOST = 6
_HEAD = """# What a rehearsal finds

Each row is one [rehearsal](../rehearsal.md) on this machine, from v1.36.3 to v1.37.1 unless it says otherwise: real API
servers have stored the objects, and both versions serve copies of them without a network, with the same program as on
a controller. `python -m bench.rehearsal` runs all of them without a lab (`--only`: one). Findings of severity `info`
are not listed. Seconds, memory (at most 2 GiB) and load averages, at beginning and end, are those of the comparison.
"""
_TABLE = """
| {what} | the cluster, or its change | named | found | objects | seconds | MiB | load | date |
|---|---|---|---|---:|---:|---:|---|---|
"""
_NOT_CALLED = "The check `webhooks.catches-control-plane` names webhooks that catch kube-system."


@dataclass(frozen=True)
class Row:
    """What became of one. `good`: the mistake was named, or nothing was found where there is none."""

    name: str
    good: bool
    found: tuple[str, ...]
    """`SEVERITY ID RESOURCE` of each finding."""
    objects: int
    seconds: float
    peak_mib: int
    """Of all processes, at most."""
    load: str
    date: str
    commit: str

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Row:
        """From a record."""
        return cls(**{**given, "found": tuple(given["found"])})


def page(rows: Sequence[tuple[Case, Row]], beside: Sequence[Window] = (), kills: Kills | None = None) -> str:
    """The text of docs/benchmarks/rehearsal.md."""
    mistakes = [pair for pair in rows if pair[0].expected]
    clean = sorted((pair for pair in rows if not pair[0].expected), key=lambda pair: pair[1].name in MEASURED)
    parts = [_HEAD, "\n## Clusters with a mistake\n", *_lines("mistake", mistakes)]
    parts.append(f"\n{_count(mistakes)} of {len(mistakes)} mistakes were named. {_NOT_CALLED}\n")
    parts += ["\n## Clusters without a mistake\n", *_lines("cluster", clean)]
    parts.append(f"\n{_count(clean)} of {len(clean)} had no finding.\n")
    return "".join([*parts, *beside_lines(beside), *kills_lines(kills)])


def _count(rows: Iterable[tuple[Case, Row]]) -> int:
    return sum(row.good for _, row in rows)


def _lines(what: str, rows: Iterable[tuple[Case, Row]]) -> list[str]:
    lines = [_TABLE.format(what=what)]
    for case, row in rows:
        serious = [each for each in row.found if not each.startswith("info ")]
        shown = "; ".join(f"`{each}`" for each in serious[:_MOST]) or "nothing"
        more = f" and {len(serious) - _MOST} more" if len(serious) > _MOST else ""
        good = ("yes" if case.expected else "–") if row.good else "**no**" if case.expected else "**falsely**"
        lines.append(
            f"| {row.name} | {case.about} | {good} | {shown}{more} | {row.objects:,} | {row.seconds:.0f} | "
            f"{row.peak_mib:,} | {row.load} | {row.date} (`{row.commit}`) |\n"
        )
    return lines
