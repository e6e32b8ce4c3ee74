"""How often a promise was kept: as kept in a file, and as a table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.guard.repeated.case import KEPT, Case

__all__ = ["Outcome", "Outcomes", "known", "outcome", "table", "written"]

Outcomes = Mapping[str, Mapping[str, "Outcome"]]
"""By the case's key, and the program's name."""


@dataclass(frozen=True)
class Outcome:
    """Of some rounds. `broken`: what broke the promise, and how often; `seconds`: of all together; `date`: as
    2026-11-26.
    """

    rounds: int
    broken: Mapping[str, int]
    seconds: float
    load_average: float
    date: str
    commit: str

    @property
    def kept(self) -> int:
        """In how many it was kept."""
        return self.rounds - sum(self.broken.values())


def outcome(said: Sequence[str], seconds: float, load_average: float, date: str, commit: str) -> Outcome:
    """`said`: of each round."""
    broken = Counter(each for each in said if each != KEPT)
    return Outcome(len(said), dict(broken), round(seconds, 1), round(load_average, 1), date, commit)


def known(file: Path, cases: Sequence[Case]) -> dict[str, dict[str, Outcome]]:
    """What came out last; nothing where nobody has tried."""
    if not file.exists():
        return {}
    found = json.loads(file.read_text())
    keys = {each.key for each in cases}
    return {key: {name: Outcome(**each) for name, each in of.items()} for key, of in found.items() if key in keys}


def written(file: Path, outcomes: Outcomes) -> None:
    """For `known`."""
    found = {key: {name: asdict(each) for name, each in of.items()} for key, of in outcomes.items()}
    file.write_text(json.dumps(found, indent=1) + "\n")


def table(cases: Sequence[Case], outcomes: Outcomes) -> str:
    """A row for each case, as Markdown."""
    rows = [_row(case, outcomes.get(case.key, {})) for case in cases]
    head = "| what happens | kept by guard | kept by the original | seconds | taken |"
    return "\n".join([head, "|---|---|---|---:|---|", *rows])


def _row(case: Case, found: Mapping[str, Outcome]) -> str:
    guard, original = found.get("guard"), found.get(case.original)
    seconds = f"{guard.seconds:.0f}" if guard else ""
    taken = f"{guard.date}, {guard.commit}, load average {guard.load_average:.1f}" if guard else ""
    return f"| {case.what} | {_kept(guard)} | {case.original}: {_kept(original)} | {seconds} | {taken} |"


def _kept(found: Outcome | None) -> str:
    if found is None:
        return "not tried yet"
    of = f"{found.kept} of {found.rounds}"
    why = "; ".join(f"{count} × {each}" for each, count in found.broken.items()).replace("|", "\\|").replace("\n", " ")
    return f"**{of}**: {why}" if why else of
