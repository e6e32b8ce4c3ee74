"""`report.json`: a run's state for machines.

It is made from the journal alone, so a run that crashed is reported as far as it is known.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from upgrader.engine.state.run_state import RunState, StepState
from upgrader.model.baseline import Baseline

__all__ = ["report_json"]


def report_json(state: RunState) -> dict[str, Any]:
    """Times are ISO 8601 in UTC ("" when not known), durations seconds.

    `outcome` of a run without an end is `interrupted`, and `complete` false. `steps` are those that were begun; the
    outcome of a step that was interrupted is its phase (`applying`, `gating`, `undoing`).
    """
    return {
        "run": state.run,
        "kind": str(state.kind) if state.run else "",
        "target": str(state.target or ""),
        "goal": str(state.goal or ""),
        "outcome": state.result,
        "started": _iso(state.started),
        "ended": _iso(state.updated),
        "seconds": state.seconds,
        "reason": state.reason,
        "complete": state.outcome is not None,
        "doing": state.doing,
        "planned": state.planned,
        "steps": [_step(step) for step in state.steps],
        "recoveries": [{**asdict(item), "started": _iso(item.started)} for item in state.recoveries],
        "resumed_by": state.resumed_by,
        "rollback_by": state.rollback_by,
        "lock_taken_from": state.lock_taken_from,
        "continuity": _continuity(state.baseline),
        "availability": asdict(state.availability) if state.availability else {},
        "unknown": state.unknown,
    }


def _continuity(baseline: Baseline | None) -> dict[str, Any]:
    """What the gates of that name compare each step with, and what they can't."""
    if baseline is None:
        return {}
    compared = asdict(baseline)
    not_compared = {item["what"]: item["why"] for item in compared.pop("not_compared")}
    return {"compared": {key: value for key, value in compared.items() if value}, "not_compared": not_compared}


def _step(step: StepState) -> dict[str, Any]:
    return {
        "name": step.name,
        "outcome": step.phase,
        "seconds": step.seconds,
        "apply_seconds": step.apply_seconds,
        "undo_seconds": step.undo_seconds,
        "summary": step.summary,
        "restore_point": str(step.restore_point or ""),
        "reason": step.reason,
        "undo_reason": step.undo_reason,
        "gates": [asdict(gate) for gate in step.gates],
    }


def _iso(time: datetime | None) -> str:
    return time.isoformat().replace("+00:00", "Z") if time else ""
