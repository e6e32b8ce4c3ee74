"""Checks gates until they hold, or fail."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from math import inf

from upgrader.errors import GateFailed
from upgrader.gates.api_absence import ApiAbsence
from upgrader.model.event import GateChecked, GatePassed
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.pipeline import GateRun
from upgrader.ports import Clock, Reporter

__all__ = ["FAIL_AFTER_BROKEN", "hold_all"]

FAIL_AFTER_BROKEN = 3
"""Consecutive `broken` checks after which a gate fails ahead of its deadline: a single one may be transient, unless its
verdict is certain.
"""

_PAUSE_SECONDS = 1.0
"""Between two rounds, however long one takes."""

_SLOW_SECONDS = 1.0
"""A gate that takes so long has asked an API that is slow."""

_A_SECOND, _AT_FIRST = 3, 60
"""How many requests gates make a second while one of them is waited for, however large the cluster, and how many beside
that, so that a short wait isn't made longer."""

_ROUNDS_LEFT = 3
"""A wait has so many times the rounds that have to succeed, whatever a round costs."""

_UNSTABLE = "The last check passed: if the cluster is only slow, raise `gates.deadline` in upgrader.yaml."


@dataclass(eq=False)
class _Count:
    """The checks of one gate so far."""

    run: GateRun
    checks: int = 0
    holding: int = 0
    broken: int = 0
    passed: bool = False
    held_at: float | None = None
    """When it was last checked (monotonic), if it held; None if it did not."""

    def may_rest(self, now: float, started: float) -> bool:
        """Whether it held a short while ago; not in the second half of its time, as it counts anew after a rest."""
        policy = self.run.policy
        in_time = now - started < policy.deadline_seconds / 2
        return in_time and self.held_at is not None and now - self.held_at < policy.recheck_seconds

    def rest(self) -> None:
        """Skip a round: what it said before says nothing of the state that another gate still waits for."""
        self.holding, self.passed = 0, False


def hold_all(
    step: str,
    gates: tuple[GateRun, ...],
    *,
    clock: Clock,
    reporter: Reporter,
    absence: ApiAbsence,
    asked: Callable[[], int] = lambda: 0,
) -> None:
    """Check every gate, round after round, until each has held often enough in a row, all in the same round.

    A gate that stops holding restarts its count, also while another one is waited for: all must be healthy together.
    On a large cluster, those that hold are checked in every third round while another one is waited for that needs as
    many checks in a row: they count anew beside it, so that nothing takes longer, and no pass is older than its state.
    `asked` counts the requests of all gates: where they are many, a long wait has fewer rounds, for three a second,
    until the rounds are left that a gate has to hold in, or until a check decides.
    `pending` and `unknown` both restart the count; only the message differs, as what is unknown is not reported as
    unhealthy. Raises GateFailed for the first gate that fails, ApiLost when `absence` finds the API lost.
    """
    counts = [_Count(replace(run, gate=run.again()) if run.again else run) for run in gates]
    if not counts:
        return
    started, before = clock.monotonic(), asked()
    interval = min(count.run.policy.interval_seconds for count in counts)
    while True:
        begun = clock.monotonic()
        seen = _round(step, counts, started, clock, reporter)
        absence.check(seen)
        if all(count.passed for count in counts):
            return
        # A long interval is from round to round: an API that answers slowly isn't asked more rarely still.
        now = clock.monotonic()
        rests = max(min(interval, _PAUSE_SECONDS), interval - (now - begun))
        if _only_waits(seen):
            owed = (asked() - before - _AT_FIRST) / _A_SECOND - (now - started)
            rests = max(rests, min(owed, _longest(counts, now - started, interval), _until_decided(seen, now)))
        clock.sleep(rests)


def _only_waits(seen: Collection[Verdict]) -> bool:
    """Whether a gate is waited for, and nothing is wrong: what is broken or unknown is about to be decided."""
    kinds = {verdict.kind for verdict in seen}
    return VerdictKind.PENDING in kinds and kinds <= {VerdictKind.HOLDS, VerdictKind.PENDING}


def _until_decided(seen: Collection[Verdict], now: float) -> float:
    """Until the first check that decides; infinity where nothing says when."""
    return min((verdict.again_at for verdict in seen if verdict.again_at is not None), default=inf) - now


def _longest(counts: Collection[_Count], spent: float, interval: float) -> float:
    """The longest pause that leaves each gate rounds enough, and no later a pass than without pauses."""
    policies = [count.run.policy for count in counts if not count.passed]
    enough = (policy.deadline_seconds / (_ROUNDS_LEFT * policy.consecutive) for policy in policies)
    return min(*enough, *(policy.deadline_seconds - (policy.consecutive + 1) * interval - spent for policy in policies))


def _round(step: str, counts: list[_Count], started: float, clock: Clock, reporter: Reporter) -> list[Verdict]:
    """One check of every gate, but for those that rest."""
    now = clock.monotonic()
    calm = [count for count in counts if count.may_rest(now, started)]
    seen: dict[_Count, Verdict] = {}
    for count in (each for each in counts if each not in calm):
        asked = clock.monotonic()
        seen[count] = _check(step, count, started, clock, reporter)
        if seen[count].kind is VerdictKind.UNKNOWN or clock.monotonic() - asked >= _SLOW_SECONDS:
            _decide_meanwhile(step, counts, started, clock, reporter)
    kinds = {verdict.kind for verdict in seen.values()}
    # What is broken or unknown may be the same fault as another gate's.
    awaited = [count.run.policy.consecutive for count, verdict in seen.items() if verdict.kind is VerdictKind.PENDING]
    needed = max(awaited, default=0) if kinds <= {VerdictKind.HOLDS, VerdictKind.PENDING} else 0
    for count in calm:
        if count.run.policy.consecutive <= needed:
            count.rest()
        else:
            seen[count] = _check(step, count, started, clock, reporter)
    return list(seen.values())


def _decide_meanwhile(step: str, counts: Collection[_Count], started: float, clock: Clock, reporter: Reporter) -> None:
    """While an API is slow, or doesn't answer, each gate takes its time: one that asks nothing may fail before the
    round ends.
    """
    for count in (each for each in counts if each.run.asks_nothing):
        seen = count.run.gate.check()
        if seen.kind is VerdictKind.BROKEN and seen.certain:
            _check(step, count, started, clock, reporter)


def _check(step: str, count: _Count, started: float, clock: Clock, reporter: Reporter) -> Verdict:
    run, policy = count.run, count.run.policy
    verdict = run.gate.check()
    count.checks += 1
    count.held_at = clock.monotonic() if verdict.kind is VerdictKind.HOLDS else None
    count.holding = count.holding + 1 if verdict.kind is VerdictKind.HOLDS else 0
    count.broken = count.broken + 1 if verdict.kind is VerdictKind.BROKEN else 0
    spent = clock.monotonic() - started
    held = count.holding >= policy.consecutive
    if not (held and count.passed):
        left = max(0.0, policy.deadline_seconds - spent)
        reporter.emit(GateChecked(step, run.gate.name, verdict, count.holding, policy.consecutive, left))
    if held and not count.passed:
        reporter.emit(GatePassed(step, run.gate.name, spent, count.checks))
    count.passed = held
    if count.broken >= FAIL_AFTER_BROKEN or (count.broken and verdict.certain):
        raise _failed(run, verdict, f"failed after {spent:.0f} s")
    if not held and spent >= policy.deadline_seconds:
        missed = f"did not pass {policy.consecutive} times in a row within {policy.deadline_seconds:.0f} s"
        raise _failed(run, verdict, missed)
    return verdict


def _failed(run: GateRun, verdict: Verdict, what: str) -> GateFailed:
    remedy = _UNSTABLE if verdict.kind is VerdictKind.HOLDS else verdict.remedy
    return GateFailed(f"gate {run.gate.name} {what}: " + "\n".join(verdict.lines()), remedy=remedy)
