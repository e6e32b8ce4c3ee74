"""How a cluster's run ended: by the command's exit code and by the cluster's own journal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from upgrader.engine.history.past_runs import PastRun, newest_run, run_named
from upgrader.fleet.events import Outcome
from upgrader.model.version import KubernetesVersion

__all__ = ["CommandEnd", "Result", "cause_of", "result_of", "without_identity"]

_CAUSE_CHARACTERS = 300
_IDENTITY = (
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"), "ADDRESS"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UID"),
)
"""What tells two clusters apart, besides their names."""
_VARYING = (
    (re.compile(r"ADDRESS:\d+\b"), "ADDRESS"),
    (re.compile(r"-[0-9a-z]{8,10}-[0-9a-z]{5}\b"), "-POD"),
    (re.compile(r"\b[0-9a-f]{12,}\b"), "DIGEST"),
    (re.compile(r"\d+"), "N"),
    (re.compile(r"\s+"), " "),
)
"""What differs between two clusters with the same fault."""


@dataclass(frozen=True)
class CommandEnd:
    """What `upgrader run -o json` said last."""

    exit_code: int
    run: str = ""
    code: str = ""
    """What `upgrader explain` takes; "" for a success."""
    what: str = ""
    why: str = ""
    time: datetime | None = None
    """When it said so."""


@dataclass(frozen=True)
class Result:
    """How an attempt ended."""

    outcome: Outcome
    run: str = ""
    cause: str = ""
    reason: str = ""
    time: datetime | None = None
    """When it ended; None: unknown."""


def result_of(
    end: CommandEnd | None,
    cluster: str,
    folder: Path,
    target: KubernetesVersion,
    *,
    before: str,
    resumed: bool,
) -> Result:
    """The result of an attempt; `end` None: its process ended without a word, as by a power cut.

    `before` is the newest run that the cluster's folder had when the attempt began.
    """
    runs = folder / "runs"
    if end is None:
        newest = newest_run(runs)
        if newest is None or (newest.name == before and not resumed):
            return Result("interrupted", reason="its process ended before it had begun a run")
        return replace(_by_journal(newest, target), time=newest.state.updated)
    return replace(_by_command(end, cluster, runs, target), time=end.time)


def _by_command(end: CommandEnd, cluster: str, runs: Path, target: KubernetesVersion) -> Result:
    text = f"{end.what}\n{end.why}".strip()
    cause = cause_of(end.code, text, cluster)
    match end.exit_code:
        case 0:
            run = run_named(runs, end.run)
            if run is None or not _reached(run, target):
                said = f"it ended with 0, but no journal says that run {end.run or 'of its own'} reached {target}"
                return Result("broken", end.run, cause_of("", said.replace(end.run, ""), cluster), said)
            return Result("succeeded", end.run)
        case 2 | 3:
            return Result("blocked", end.run, cause, end.what)
        case 4:
            return Result("rolled-back", end.run, cause, end.what)
        case 6 | 130:
            run = run_named(runs, end.run) if end.run else None
            open_run = run is not None and run.outcome == "interrupted"
            return Result("interrupted", end.run if open_run else "", cause, end.what)
        case _:
            return Result("broken", end.run, cause, end.what)


def _by_journal(run: PastRun, target: KubernetesVersion) -> Result:
    """Of an attempt whose process didn't say how it ended."""
    reason = run.state.reason
    if _reached(run, target):
        return Result("succeeded", run.name)
    if run.outcome == "rolled-back":
        return Result("rolled-back", run.name, cause_of("", reason, run.name), reason)
    if run.outcome in ("interrupted", "succeeded"):  # succeeded: one hop of several
        return Result("interrupted", run.name, reason="its process ended in the middle of the run")
    text = run.problem or reason
    return Result("broken", run.name, cause_of("", text, run.name), text)


def _reached(run: PastRun, target: KubernetesVersion) -> bool:
    return run.state.is_upgrade and run.outcome == "succeeded" and run.state.target == target


def cause_of(code: str, text: str, name: str) -> str:
    """A text that is equal for two clusters that fail in the same way; `name` is what only one of them has in it."""
    text = _with(_VARYING, without_identity(text, name))
    return f"{code}: {text}".removeprefix(": ").strip()[:_CAUSE_CHARACTERS]


def without_identity(text: str, name: str) -> str:
    """NAME for a name, but not within another word: `eu-1` is no part of `eu-10`. ADDRESS and UID for all others."""
    if name:
        text = re.sub(rf"(?<![0-9A-Za-z]){re.escape(name)}(?![0-9A-Za-z])", "NAME", text)
    return _with(_IDENTITY, text)


def _with(replacements: Iterable[tuple[re.Pattern[str], str]], text: str) -> str:
    for pattern, instead in replacements:
        text = pattern.sub(instead, text)
    return text
