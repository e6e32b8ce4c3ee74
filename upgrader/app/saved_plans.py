"""Writes a plan to a file, and reads one: what `upgrader run --plan` is bound to."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

from upgrader import __version__
from upgrader.app.plan_inputs import plan_inputs
from upgrader.app.wiring import Session
from upgrader.engine.journal.atomic import write_atomic
from upgrader.errors import Inhibited, UsageError
from upgrader.model.json_values import from_json, to_json
from upgrader.model.observed import Observed
from upgrader.model.plan import Plan, PlannedRelease
from upgrader.model.plan_document import FORMAT_VERSION, PlanDocument
from upgrader.model.saved_plan import BoundRelease, PlanBinding, SavedPlan

__all__ = ["VALID", "bind", "read_plan", "refuse_other_run", "write_plan"]

VALID = timedelta(hours=24)
"""For how long a saved plan may be run: the checks' findings that somebody approved it by grow old."""


def bind(session: Session, observed: Observed, plan: Plan) -> PlanBinding:
    """What a plan is made from, here and now.

    Raises ApiError where the cluster can't be told from another one, UsageError where a file can't be read.
    """
    try:
        inputs = plan_inputs(session.settings, plan)
    except OSError as error:
        raise UsageError(f"{error.filename}, an input of the plan, can't be read: {error.strerror}") from error
    return PlanBinding(
        __version__,
        session.cluster_uid(),
        plan.current,
        plan.target,
        tuple(step.name for step in plan.steps),
        tuple(_release(step, observed) for step in plan.steps if isinstance(step, PlannedRelease)),
        inputs,
    )


def _release(step: PlannedRelease, observed: Observed) -> BoundRelease:
    history = observed.releases[step.name].history
    return BoundRelease(step.name, history[-1].number if history else 0)


def write_plan(path: Path, binding: PlanBinding, document: PlanDocument, now: datetime) -> None:
    """Write a saved plan (mode 0600): the binding, and the plan itself for those who approve it, secrets masked.

    Raises UsageError where the file can't be written.
    """
    saved = SavedPlan(FORMAT_VERSION, now.isoformat(), (now + VALID).isoformat(), binding)
    content = {**to_json(saved, mask=False), "plan": to_json(document)}
    try:
        write_atomic(path, (json.dumps(content, indent=2) + "\n").encode())
    except OSError as error:
        raise UsageError(f"the plan can't be written to {path}: {error.strerror}") from error


def read_plan(path: Path) -> SavedPlan:
    """Read what a saved plan is bound to. Raises UsageError for a file that is none, or of another format."""
    try:
        content = json.loads(path.read_text())
        saved: SavedPlan = from_json(SavedPlan, content, "plan")
        if saved.format_version != FORMAT_VERSION:
            raise ValueError(f"its format_version is {saved.format_version}, not {FORMAT_VERSION}")
        if datetime.fromisoformat(saved.expires).tzinfo is None:
            raise ValueError("plan.expires has no time zone")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"{path} is not a saved plan: {why}", remedy="Make one with `upgrader plan --out FILE`."
        ) from error
    return saved


def refuse_other_run(saved: SavedPlan, now: PlanBinding, time: datetime) -> None:
    """Raise Inhibited, naming each thing that differs, unless a run would be exactly what was saved."""
    differences = saved.differences(now, time)
    if differences:
        raise Inhibited(
            "\n".join(["the saved plan is not what would be run now; nothing was changed:", *differences]),
            remedy="Make a new plan with `upgrader plan --out FILE`, and have it approved again.",
        )
