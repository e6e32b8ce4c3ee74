"""How long each step took in earlier runs."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from upgrader.engine.state.run_state import RunState, StepState

__all__ = ["usual_seconds"]


def usual_seconds(runs: Iterable[RunState]) -> dict[str, float]:
    """The median of each step's duration, gates included, in the upgrades where it did something and passed.

    By the step's name; one that never did is not in it. Rolled back afterwards or not, it took that long.
    """
    found: dict[str, list[float]] = {}
    for state in runs:
        for step in state.steps if state.is_upgrade else ():
            if _passed(step):
                found.setdefault(step.name, []).append(step.seconds)
    return {name: median(seconds) for name, seconds in found.items()}


def _passed(step: StepState) -> bool:
    """Whether it did something (a step that only has its gates checked has no restore point) and did not fail."""
    return (step.restore_point is not None or step.prepares) and step.seconds > 0 and not step.reason
