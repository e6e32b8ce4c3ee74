"""How a run ended, in one sentence, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from upgrader.engine.state.run_state import RunState
from upgrader.model.first_words import first_words
from upgrader.model.run_kind import RunKind

__all__ = ["Headline", "Tone", "headline"]

Tone = Literal["good", "back", "bad", "open", "active", "idle"]
"""`good`: done; `back`: rolled back; `bad`: failed; `open`: not known, or not over; `idle`: not begun, or skipped."""


_SWITCH_ON = "upgrader guard on"


@dataclass(frozen=True)
class Headline:
    """The first sentence of a report."""

    tone: Tone
    title: str
    """`Upgrade to v1.37.1`."""
    outcome: str
    """One or two words."""
    sentence: str
    advice: str = ""
    """What to do next, in words; "" for nothing."""
    commands: tuple[str, ...] = ()
    """The commands for it."""


def headline(state: RunState, *, running: bool = False) -> Headline:
    """Of a run. `running`: a process works on it now, so that its journal has no end yet."""
    found = _headline(state, running=running)
    if running or not state.webhooks_off:
        return found
    off = ", ".join(map(str, state.webhooks_off))
    left = f"These guard webhooks are off: {off}. Switch them on once they answer."
    return replace(found, advice=" ".join(filter(None, [found.advice, left])), commands=(*found.commands, _SWITCH_ON))


def _headline(state: RunState, *, running: bool) -> Headline:
    title = _title(state)
    if running:
        doing = f": {state.doing}" if state.doing else ""
        return Headline("active", title, "Running", f"It is still running{doing}.", commands=("upgrader status",))
    match state.result:
        case "succeeded":
            return _succeeded(state, title)
        case "rolled-back":
            return _rolled_back(state, title)
        case "failed":
            return _failed(state, title)
        case "interrupted":
            return _interrupted(state, title)


def _title(state: RunState) -> str:
    if not state.run:
        return "A run that recorded nothing"
    text = state.title
    return text[:1].upper() + text[1:]


def _succeeded(state: RunState, title: str) -> Headline:
    count = len(state.steps)
    steps = "Its one step has passed its gates" if count == 1 else f"All {count} steps have passed their gates"
    at = f"; the control plane runs {state.target}" if state.target and state.kind is RunKind.UPGRADE else ""
    if not count:
        steps = "There was nothing to do"
    advice = ""
    commands: tuple[str, ...] = ()
    if state.emulated and state.kind is RunKind.UPGRADE:
        kept = f"It emulates {state.emulated}: until it is finalized, `upgrader rollback` can undo the upgrade."
        advice = f"{kept} Finalize it once you trust it."
        commands = ("upgrader finalize",)
    elif state.is_upgrade and state.goal and state.goal != state.target:
        advice, commands = (
            f"It is part of an upgrade to {state.goal}. Continue it.",
            (f"upgrader run --to {state.goal}",),
        )
    return Headline("good", title, "Succeeded", f"{steps}{at}.", advice, commands)


def _rolled_back(state: RunState, title: str) -> Headline:
    where = f" at {state.left_at}" if state.left_at else ""
    failed = state.failure
    if failed is None:
        by = f" by {state.rollback_by}" if state.rollback_by else ""
        to = f", to the state after the step {state.rollback_to}" if state.rollback_to else ""
        sentence = f"It was rolled back as requested{by}{to}; the gates passed{_but(state)}."
        if state.left_failing is not None:
            return Headline("back", title, "Rolled back", sentence, state.left_failing.undo_remedy)
        return Headline("back", title, "Rolled back", sentence)
    again = f"upgrader run --to {state.target}" if state.target and state.is_upgrade else state.kind.command
    advice = failed.remedy or "Fix the cause below, then run it again."
    if state.untouched:
        sentence = f"It failed in the step {failed.name} before it changed anything; the cluster is unchanged{where}."
        return Headline("back", title, "Failed, nothing changed", sentence, advice, (again,))
    recovered = any(item.outcome == "succeeded" for item in state.recoveries)
    first = "; the API was recovered over SSH first" if recovered else ""
    what = "control plane" if state.left_failing else "cluster"
    sentence = f"The step {failed.name} failed and was rolled back{first}. The {what} is healthy{where}{_but(state)}."
    return Headline("back", title, "Failed and rolled back", sentence, advice, (again,))


def _but(state: RunState) -> str:
    """What fails behind the rollback, and worked before the run."""
    return f", but {first_words(state.left_failing.undo_reason)}" if state.left_failing is not None else ""


def _failed(state: RunState, title: str) -> Headline:
    stuck = next((step for step in state.steps if step.phase == "undo-failed"), None)
    failed = state.failure
    if stuck is not None:
        what, remedy = f"The step {stuck.name} could not be rolled back", stuck.undo_remedy or stuck.remedy
    elif failed is not None:
        what, remedy = f"The step {failed.name} failed, and was not rolled back", failed.remedy
    else:
        what, remedy = "It failed", ""
    advice = remedy or "Check the cluster before anything else."
    commands = ("upgrader check", "upgrader resume") if state.is_upgrade else (state.kind.command,)
    return Headline(
        "bad", title, "Manual action required", f"{what}. Check the cluster before anything else.", advice, commands
    )


def _interrupted(state: RunState, title: str) -> Headline:
    active = next((step for step in state.steps if step.active), None)
    if not state.run:
        return Headline("open", title, "Not known", "Its journal has no record yet.", commands=("upgrader status",))
    doing = state.doing.removeprefix(f"{active.name}: ") if active else state.doing
    told = f" ({doing})" if doing else ""
    where = f" in the step {active.name}{told}" if active else told
    unsure = "; a resume first checks the state of that step" if active else ""
    commands = ("upgrader resume", "upgrader rollback") if state.is_upgrade else (state.kind.command,)
    advice = "Resume it, or undo it." if state.is_upgrade else "Run the same command again: it continues."
    if state.rollback_to is not None:
        commands, advice = ("upgrader resume",), "Resume it: the rollback continues."
    return Headline("open", title, "Interrupted", f"It was interrupted{where}{unsure}.", advice, commands)
