"""What a run changes was rehearsed, where policy.rehearsal asks for that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.preflight.context import PreflightContext

__all__ = ["check_rehearsal"]

_DAY_SECONDS = 86400


def check_rehearsal(context: PreflightContext) -> Iterator[Finding]:
    """The newest rehearsal is of this upgrade and not too old, and what it found was fixed or is skipped."""
    policy = context.rehearsal_policy
    if policy.mode == "ignore" or context.known_rehearsal is None or not context.changing:
        return
    required = policy.mode == "require"
    remedy = f"Rehearse it: upgrader rehearse --to {context.target}. Or accept it: --skip ID --reason TEXT."
    try:
        known = context.known_rehearsal()
    except ValueError as error:
        title = "the record of the last rehearsal can't be used"
        yield Finding("rehearsal.damaged", "error" if required else "warning", title, str(error), remedy)
        return
    if known is None:
        title = f"the upgrade to {context.target} was not rehearsed"
        why = f"The folder has no record of a rehearsal to {context.target} (runs/rehearsal.json)."
        yield Finding("rehearsal.missing", "error" if required else "warning", title, why, remedy)
        return
    when = f"{known.rehearsed:%Y-%m-%d %H:%M} UTC"
    seconds = (context.clock.now() - known.rehearsed).total_seconds()
    if known.changed:
        title = f"the rehearsal of {when} was for a different change"
        why = first_few(known.changed)
        yield Finding("rehearsal.stale", "error" if required else "warning", title, why, remedy)
    elif seconds > policy.max_age_seconds:
        title = f"the rehearsal of {when} is too old"
        why = f"It may be {policy.max_age_seconds / _DAY_SECONDS:.3g} days old (policy.rehearsal.maxAge)."
        yield Finding("rehearsal.old", "error" if required else "warning", title, why, remedy)
    else:
        title = f"the run relies on the rehearsal of {when}, on {known.controller}"
        yield Finding("rehearsal.used", "info", title, "Nothing has changed since.", "Nothing to do.")
        for finding in known.findings:
            if finding.blocking:
                yield finding if required else replace(finding, severity="warning")
