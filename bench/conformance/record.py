"""What bench/results/conformance.json has: the newest result of each spec, by version and way, and by which command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.conformance.results import Result
from bench.conformance.specs import Chosen

__all__ = ["Record", "merged", "ours", "recorded"]

Record = Mapping[str, Any]
"""One way at one version: `commands` (by their `date`), `specs` (by name), `left_out` (by name), `of` (how many)."""


def recorded(
    command: Mapping[str, Any],
    chosen: Chosen,
    results: Sequence[Result],
    why: Mapping[str, tuple[bool, str]],
    at_work: Sequence[Result] | None = None,
) -> Record:
    """The record of one command; `at_work` are those that ran while `upgrader run` did, `why` explains failures."""
    beside = None if at_work is None else {result.name for result in at_work}
    specs: dict[str, dict[str, Any]] = {}
    for result in results:
        entry: dict[str, Any] = {
            "state": result.state, "seconds": round(result.seconds, 1), "date": command["date"]
        }  # fmt: skip
        if beside is not None:
            entry["at_work"] = result.name in beside
        if result.failed:
            is_ours, words = why.get(result.name, (True, "not explained"))
            entry |= {"message": result.message, "ours": is_ours, "why": words}
        specs[result.name] = entry
    of = len(chosen.run) + len(chosen.left_out) + chosen.not_asked_for
    return {"commands": [dict(command)], "specs": specs, "left_out": dict(chosen.left_out), "of": of}


def merged(before: Record | None, now: Record) -> Record:
    """The newest of each spec; commands of which no result is left are gone."""
    if not before:
        return now
    specs = {**before["specs"], **now["specs"]}
    left_out = {name: why for name, why in before["left_out"].items() if name not in now["specs"]} | now["left_out"]
    specs = {name: specs[name] for name in sorted(specs) if name not in now["left_out"]}
    dates = {spec["date"] for spec in specs.values()}
    # By date: a command writes its record twice, without and with explanations.
    every = {each["date"]: each for each in (*before["commands"], *now["commands"])}
    commands = [each for date, each in every.items() if date in dates]
    return {"commands": commands, "specs": specs, "left_out": dict(sorted(left_out.items())), "of": now["of"]}


def ours(record: Record) -> list[str]:
    """The specs that failed and for which we may be the reason."""
    return [name for name, spec in record["specs"].items() if spec.get("ours")]
