"""How far a campaign is, in one sentence, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from upgrader.fleet.reports.failures import Cause
from upgrader.fleet.reports.metrics import state_of
from upgrader.fleet.reports.words import first_line, minute, some
from upgrader.fleet.use_cases import FleetStatus
from upgrader.reporting.report.headline import Headline

__all__ = ["fleet_headline"]

_RUN = "upgrader fleet run"
_STATUS = "upgrader fleet status"
_ANEW = f"{_RUN} --new"
_RESTORE = "Restore it, or start a new campaign with the current files."
"""Of a file of the fleet that has changed, with which a campaign in progress doesn't go on."""
_BELOW = "What to do is shown below for each cause of failure"


def fleet_headline(status: FleetStatus, failures: Sequence[Cause]) -> Headline:
    """Of a campaign that was begun; `failures` are its `causes`, which are shown below it."""
    title, advised = f"Fleet {status.fleet.goal}", any(each.to_do for each in failures)
    known = state_of(status)
    if known == "done":
        return _done(status, title, advised=advised)
    if known == "needs-a-person":
        waits = [wait.reason for wait in status.decision.stages.values() if wait.person]
        why = first_line(status.decision.stop or "; ".join(dict.fromkeys(waits)) or "it waits for an operator")
        advice, command = "Use `upgrader fleet approve`, `retry`, `skip` or `resume`; then continue the campaign.", _RUN
        if status.changed:
            advice, command = _RESTORE, _ANEW
        elif status.state.paused is None and advised:
            advice = f"{_BELOW}; then continue the campaign."
        return Headline("bad", title, "Needs an operator", f"It waits for an operator: {why}.", advice, (command,))
    if status.coordinator is None:
        sentence = "`upgrader fleet run` is not active: runs in progress continue, but no further run starts."
        if status.changed:
            return Headline("open", title, "Not being run", f"{sentence} {status.changed}.", _RESTORE, (_ANEW,))
        return Headline("open", title, "Not being run", sentence, "Continue it.", (_RUN,))
    by = f"`upgrader fleet run` is active: {status.coordinator.holder}, since {minute(status.coordinator.since)}"
    if status.decision.stop:
        sentence = f"{by}. No cluster begins: {first_line(status.decision.stop)}."
        advice, command = (_RESTORE, _ANEW) if status.changed else ("", _STATUS)
        return Headline("back", title, "No cluster begins", sentence, advice, (command,))
    return Headline("active", title, "Running", f"{by}.", commands=(_STATUS,))


def _done(status: FleetStatus, title: str, *, advised: bool) -> Headline:
    clusters = status.state.clusters.values()
    failed = [each.name for each in clusters if each.failed]
    skipped = [each.name for each in clusters if each.phase == "skipped"]
    count = sum(each.phase == "succeeded" for each in clusters)
    left = f" Left out: {some(skipped)}." if skipped else ""
    again = "upgrader fleet retry CLUSTER"
    advice, commands = "", (again,) if skipped else ()
    if status.changed:
        advice, commands = "Its files have changed since: start a new campaign with them.", (_RUN,)
    elif failed:
        advice, commands = (f"{_BELOW}.", ()) if advised else ("Fix their causes, then retry them.", (again,))
    if failed:
        sentence = f"It is done, but {len(failed)} of {len(clusters)} clusters have failed: {some(failed)}.{left}"
        return Headline("bad", title, "Done, with failures", sentence, advice, commands)
    sentence = f"{count} of {len(clusters)} clusters {status.fleet.goal.reached}.{left}"
    return Headline("good", title, "Done", sentence, advice, commands)
