"""How a cluster's run ended: by the command's exit code and by the cluster's own journal."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from upgrader.app.event_lines import OUTCOME
from upgrader.engine.history.past_runs import PastRun, newest_name, newest_of_kind, run_named
from upgrader.engine.journal.record import time_of
from upgrader.errors import ApiUnavailable
from upgrader.fleet.causes import cause_of
from upgrader.fleet.events import Outcome
from upgrader.fleet.model import Goal
from upgrader.model.run_kind import RunKind

__all__ = ["CommandEnd", "Result", "Sign", "command_end", "result_of"]

_UNREACHABLE = ApiUnavailable.__name__


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
    began: datetime | None = None
    """When it stopped waiting for its turn, as in a queue of Jobs; None: it didn't wait, or that isn't known."""
    unread: str = ""
    """Why the cluster's journal can't be read, so that only the exit code is known; "": it is in the cluster folder."""


def command_end(line: str | bytes) -> CommandEnd | None:
    """What the last line of `upgrader run -o json` says; None for any other line, and for a part of one."""
    try:
        fields = json.loads(line)
        if fields["type"] != OUTCOME:
            return None
        data = fields["data"]
        error = data.get("error") or {}
        return CommandEnd(
            int(data["exit_code"]),
            str(data.get("run", "")),
            code=str(error.get("code", "")),
            what=str(error.get("what", "")),
            why=str(error.get("why", "")),
            time=time_of(str(fields["time"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None  # a playbook can have written the line


@dataclass(frozen=True)
class Sign:
    """The last sign of life of an attempt that is running."""

    process: str
    """What it is, as an operator looks for it."""
    time: datetime | None = None
    """When it wrote something last; None: it hasn't yet."""
    log: str = ""
    """How an operator reads what it has written; "": it is in the attempt's folder."""
    to_end: str = "kill that process"
    """What an operator does if it hangs."""


@dataclass(frozen=True)
class Result:
    """How an attempt ended."""

    outcome: Outcome
    run: str = ""
    cause: str = ""
    reason: str = ""
    open: bool = False
    """Whether the run has no end, or none that is known, so that it is to be resumed; its outcome is `interrupted`."""
    time: datetime | None = None
    """When it ended; None: unknown."""
    began: datetime | None = None
    """As of `CommandEnd`."""


def result_of(
    end: CommandEnd | None,
    cluster: str,
    folder: Path,
    goal: Goal,
    *,
    campaign: str,
    before: str,
    resumed: str,
) -> Result:
    """The result of an attempt; `end` None: its process ended without a word, as by a power cut.

    `before` is the newest run that the cluster's folder had when the attempt began; `resumed` the run that the attempt
    was to resume, "" where it was to begin one. Whatever the process said: a run without an end in its journal is open.
    Of one that names no run, the journal of the newest one counts, if this `campaign` has begun it: an earlier process
    of the attempt has.

    An upgrade over several minors has a run for each. The command names the last one that has ended, and its exit code
    may be of the next one, which was blocked, or was begun and has no end.
    """
    runs = folder / "runs"
    if end is not None and end.unread:
        return replace(_by_exit_code(end, cluster, runs, goal, resumed), time=end.time, began=end.began)
    begun = _begun(runs, goal.kind, before, resumed, campaign)
    if goal.finalizes and end is not None and end.exit_code == 0 and not end.run:
        mine = run_named(runs, begun) if begun not in ("", before, resumed) else None
        return replace(_nothing_left(mine, cluster, goal), time=end.time, began=end.began)
    unnamed = _open_run(runs, begun, end) if end and end.run else None
    if unnamed is not None and end is not None:
        end = replace(end, run="")
    name = (end.run if end else "") or begun or resumed
    run = unnamed or (run_named(runs, name) if name else None)
    time = end.time if end else run.state.updated if run else None
    ended = end is not None and bool(end.run) and end.exit_code not in (0, 6, 130)
    unknown = None if ended else _unknown(name, run, cluster)
    began = end.began if end else None
    if began and run and run.name not in (before, resumed):
        # A queue that stops a Job for another one gives it another start, with only the rest of its run.
        began = min(began, run.state.started or began)
    return replace(unknown or _known(end, cluster, run, goal, campaign, resumed), time=time, began=began)


def _begun(runs: Path, kind: RunKind, before: str, resumed: str, campaign: str) -> str:
    """The run that was begun since, which a process that was killed can't have said; "" for none. A person may have
    run `recover` or `adopt` after it. One that another has begun stands for none of this campaign's, unless it is open.
    """
    known = before or resumed
    newest = newest_of_kind(runs, kind, after=known, of=campaign) or newest_of_kind(runs, kind, after=known)
    if newest is not None and newest.outcome not in ("interrupted", "unknown") and newest.state.campaign != campaign:
        return resumed
    # Their order tells, whatever clocks say; only where what was known is gone, the times in their names have to.
    if newest is not None and (newest.name > known or run_named(runs, known)):
        return newest.name
    return "" if newest is None and newest_name(runs) else known  # what was there is gone: nothing is known of it


def _nothing_left(mine: PastRun | None, cluster: str, goal: Goal) -> Result:
    """Of a finalize that found nothing emulated: as `mine` has ended, which an earlier process of the attempt began. It
    may have failed once the last emulation had ended.
    """
    if mine is not None and mine.outcome not in ("interrupted", "unknown"):
        return _by_journal(mine, cluster, goal)
    return Result("succeeded", reason="it emulated no older version")


def _open_run(runs: Path, newest: str, end: CommandEnd) -> PastRun | None:
    """The newest run, if the command has begun it after the one that it names, and its journal has no end."""
    run = run_named(runs, newest) if newest not in ("", end.run) else None
    if run is None or run.outcome not in ("interrupted", "unknown"):
        return None
    started = run.state.started
    later = started is not None and end.time is not None and started > end.time
    return None if later else run


def _unknown(name: str, run: PastRun | None, cluster: str) -> Result | None:
    """Of a run whose journal isn't there, or isn't valid."""
    if not name or (run is not None and not run.problem):
        return None
    reason = f"the outcome of run {name} is unknown: {run.problem if run else 'it has no journal'}"
    return Result("interrupted", name, cause_of("", reason.replace(name, "RUN"), cluster), reason, open=True)


def _known(
    end: CommandEnd | None, cluster: str, run: PastRun | None, goal: Goal, campaign: str, resumed: str
) -> Result:
    mine = run is not None and (run.name == resumed or run.state.campaign == campaign)
    if run is not None and run.outcome == "interrupted" and not run.problem:
        reason = _said(end) if end else "its process ended in the middle of the run"
        return Result("interrupted", run.name, _cause(end, cluster) if end else "", reason, open=True)
    if end is not None and (end.run or not mine):
        return _by_command(end, cluster, run if end.run else None, goal)
    if run is None:
        return Result("interrupted", reason="its process ended before it started a run")
    if end is not None and _on_the_way(run, goal):
        return _by_command(end, cluster, run, goal)
    return _by_journal(run, cluster, goal)


def _by_exit_code(end: CommandEnd, cluster: str, runs: Path, goal: Goal, resumed: str) -> Result:
    """Of an attempt whose cluster's journal can't be read now. If it names no run, one may still be in the middle. A
    coordinator that was killed may have brought the journal home before.
    """
    match end.exit_code:
        case _ if not end.run or end.exit_code in (6, 130):
            return Result("interrupted", end.run or resumed, _cause(end, cluster), _said(end), open=True)
        case 0:
            return Result("succeeded", end.run)
    here = run_named(runs, end.run)
    if here is not None and here.outcome == "rolled-back":
        return _by_command(end, cluster, here, goal)
    result = _by_command(end, cluster, None, goal)
    unread = f"the cluster's journal can't be read: {end.unread}"
    if result.outcome == "rolled-back":  # the exit code doesn't say what the rollback has left
        why = f"it was rolled back, and it is unknown whether something that worked before fails now: {unread}"
        return replace(result, outcome="broken", reason=f"{result.reason} ({why})")
    return replace(result, reason=f"{result.reason} ({unread})")


def _cause(end: CommandEnd, cluster: str) -> str:
    return cause_of(end.code, f"{end.what}\n{end.why}".strip(), cluster)


def _said(end: CommandEnd) -> str:
    """What has happened and why, without the details of further lines, which are in the cluster's own report."""
    why = end.why.partition("\n")[0]
    return f"{end.what.rstrip('.')}: {why}" if why else end.what


def _by_command(end: CommandEnd, cluster: str, run: PastRun | None, goal: Goal) -> Result:
    """Of an attempt that began no run, or whose last run has an end: of several minors, this may be the one before the
    one that the exit code is of, of which nothing was begun then.
    """
    cause = _cause(end, cluster)
    between = run is not None and _on_the_way(run, goal)
    name = run.name if run else end.run
    where = f"at {run.state.target}, on the way to {goal.target}: " if run and between else ""
    match end.exit_code:
        case 0:
            if run is None or not _reached(run, goal):
                what = f"run {name}" if name else "its run"
                said = f"it exited with code 0, but no journal says that {what} reached {goal.target}"
                return Result("broken", name, cause_of("", said.replace(name, ""), cluster), said)
            return Result("succeeded", name)
        case 4:
            return Result("broken" if run and _left_failing(run) else "rolled-back", name, cause, where + _said(end))
        case 6 | 130:
            return Result("interrupted", name, cause, where + _said(end), open=between)
        case 5 if end.code == _UNREACHABLE and (between or not name):
            # Begun again like any interrupted one: then its API is asked first, as `onUnreachable` says.
            return Result("interrupted", name, cause, where + _said(end), open=between)
        case 5 if between or not name:
            return Result("blocked", name, cause, where + _said(end))
        case 2 | 3:
            return Result("blocked", name, cause, where + _said(end))
        case _:
            return Result("broken", name, cause, where + _said(end))


def _by_journal(run: PastRun, cluster: str, goal: Goal) -> Result:
    """Of a run that has an end, of which the process of the campaign has not said that it is its own."""
    reason = run.state.reason
    if _reached(run, goal):
        return Result("succeeded", run.name)
    if run.outcome == "rolled-back":
        left = _left_failing(run)
        said = f"{reason}; it was rolled back, but {left}" if left else reason
        return Result("broken" if left else "rolled-back", run.name, cause_of("", reason, cluster), said)
    if _on_the_way(run, goal):
        return Result(
            "interrupted", run.name, reason=f"it is at {run.state.target}, on the way to {goal.target}", open=True
        )
    return Result("broken", run.name, cause_of("", reason, cluster), reason)


def _left_failing(run: PastRun) -> str:
    """What worked before a run and fails, or may fail, although it was rolled back; "" for nothing."""
    left = run.state.left_failing
    return left.undo_reason if left is not None and run.outcome == "rolled-back" else ""


def _reached(run: PastRun, goal: Goal) -> bool:
    return run.state.kind is goal.kind and run.outcome == "succeeded" and run.state.target == goal.target


def _on_the_way(run: PastRun, goal: Goal) -> bool:
    """One hop of several: neither the old version nor the new. A finalize has but one."""
    return (
        run.state.is_upgrade
        and run.state.kind is goal.kind
        and run.outcome == "succeeded"
        and run.state.target != goal.target
    )
