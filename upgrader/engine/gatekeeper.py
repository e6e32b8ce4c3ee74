"""Asks gates until they hold, or until it is certain that they won't."""

from __future__ import annotations

from collections.abc import Callable

from upgrader.errors import GateFailed
from upgrader.model.event import GateLooked, GatePassed
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.pipeline import GateRun
from upgrader.ports import Clock, Reporter

__all__ = ["BROKEN_LOOKS", "hold_all"]

BROKEN_LOOKS = 3
"""Looks in a row that must say `broken` before a gate gives up ahead of its deadline: one may be a glimpse."""


def hold_all(
    step: str, gates: tuple[GateRun, ...], *, clock: Clock, reporter: Reporter, check: Callable[[], None]
) -> None:
    """Wait for each gate in turn; raises GateFailed for the first that doesn't hold. `check` may raise to stop."""
    for gate in gates:
        _hold(step, gate, clock, reporter, check)


def _hold(step: str, run: GateRun, clock: Clock, reporter: Reporter, check: Callable[[], None]) -> None:
    """Hold one gate: `needed` looks in a row must hold before the deadline.

    `pending` and `unknown` both start the count anew. They differ in the message: what is unknown at the
    deadline is said to be unknown, not to be unhealthy.
    """
    started = clock.monotonic()
    consecutive = broken = looks = 0
    while True:
        check()
        verdict = run.gate.look()
        looks += 1
        consecutive = consecutive + 1 if verdict.kind is VerdictKind.HOLDS else 0
        broken = broken + 1 if verdict.kind is VerdictKind.BROKEN else 0
        spent = clock.monotonic() - started
        left = max(0.0, run.deadline_seconds - spent)
        reporter.emit(GateLooked(step, run.gate.name, verdict, consecutive, run.needed, left))
        if consecutive >= run.needed:
            reporter.emit(GatePassed(step, run.gate.name, spent, looks))
            return
        if broken >= BROKEN_LOOKS:
            raise _failed(run, verdict, f"broken after {spent:.0f} s")
        if left <= 0.0:
            raise _failed(run, verdict, f"did not hold {run.needed} times in a row within {run.deadline_seconds:.0f} s")
        clock.sleep(min(run.interval_seconds, max(left, 0.05)))


def _failed(run: GateRun, verdict: Verdict, what: str) -> GateFailed:
    lines = [f"gate {run.gate.name} {what}: {verdict.reason}", *(f"  {detail}" for detail in verdict.details)]
    return GateFailed("\n".join(lines))
