"""What a run changes was rehearsed, where policy.rehearsal asks for that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.rehearsal_record import KnownRehearsal
from upgrader.model.settings import RehearsalSettings
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.context import PreflightContext

__all__ = ["check_rehearsal", "rehearsal_findings"]

_DAY_SECONDS = 86400
_SKEW_SECONDS = 300
"""By how much the clock of the machine that rehearsed may be ahead of this one's."""


def check_rehearsal(context: PreflightContext) -> Iterator[Finding]:
    """The newest rehearsal is of this upgrade and not too old, and what it found was fixed or is skipped."""
    if context.known_rehearsal is not None and context.changing:
        now = context.clock.now()
        yield from rehearsal_findings(context.rehearsal_policy, context.target, context.known_rehearsal, now)


def rehearsal_findings(
    policy: RehearsalSettings, target: KubernetesVersion, read: Callable[[], KnownRehearsal | None], now: datetime
) -> Iterator[Finding]:
    """What a policy says of the newest rehearsal to a target, which `read` compares with what is planned. It returns
    None where there is none, and raises ValueError for a record that can't be used.
    """
    if policy.mode == "ignore":
        return
    required = policy.mode == "require"
    ways = f"Rehearse it: upgrader rehearse --to {target}. Or accept it: upgrader run --to {target}"
    try:
        known = read()
    except ValueError as error:
        title = "the record of the last rehearsal can't be used"
        remedy = f"{ways} --skip rehearsal.damaged --reason TEXT"
        yield Finding("rehearsal.damaged", "error" if required else "warning", title, str(error), remedy)
        return
    if known is None:
        title = f"the upgrade to {target} was not rehearsed"
        why = f"The folder has no record of a rehearsal to {target} (runs/rehearsal.json)."
        remedy = f"{ways} --skip rehearsal.missing --reason TEXT"
        yield Finding("rehearsal.missing", "error" if required else "warning", title, why, remedy)
        return
    when = f"{known.rehearsed:%Y-%m-%d %H:%M} UTC"
    seconds = (now - known.rehearsed).total_seconds()
    if known.changed:
        title = f"the rehearsal of {when} was for a different change"
        why = first_few(known.changed)
        if found := list(dict.fromkeys(each.id for each in known.findings if each.blocking)):
            why += f". It had found {first_few(found)}, which this may have fixed or not"
        remedy = f"{ways} --skip rehearsal.stale --reason TEXT"
        yield Finding("rehearsal.stale", "error" if required else "warning", title, why, remedy)
        return
    if seconds > policy.max_age_seconds or seconds < -_SKEW_SECONDS:
        if seconds < 0:
            title = f"the rehearsal of {when} is in the future, so it may be too old"
            why = "The clock of the machine that rehearsed was wrong, or the clock of this machine is."
        else:
            title = f"the rehearsal of {when} is too old"
            why = f"It may be at most {policy.max_age_seconds / _DAY_SECONDS:.3g} days old (policy.rehearsal.maxAge)."
        remedy = f"{ways} --skip rehearsal.old --reason TEXT"
        yield Finding("rehearsal.old", "error" if required else "warning", title, why, remedy)
    else:
        title = f"the run relies on the rehearsal of {when}, on {known.controller}"
        yield Finding("rehearsal.used", "info", title, "Nothing has changed since.", "Nothing to do.")
    # Of an old one, too: who accepts its age has not accepted what it found.
    for finding in known.findings:
        if finding.severity != "info":
            yield finding if required else replace(finding, severity="warning")
