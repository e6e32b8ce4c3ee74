"""Writes a plan to a file, and reads one: what `upgrader run --plan` is bound to."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from upgrader import __version__
from upgrader.app.plan_inputs import plan_inputs, records_key
from upgrader.app.wiring import Session
from upgrader.engine.journal.atomic import write_atomic
from upgrader.errors import Inhibited, StepFailed, UsageError
from upgrader.model.json_values import from_json, to_json
from upgrader.model.observed import Observed
from upgrader.model.plan import Plan, PlannedRelease
from upgrader.model.plan_document import FORMAT_VERSION, PlanDocument
from upgrader.model.release import last_good
from upgrader.model.saved_plan import BoundInput, BoundRelease, PlanBinding, SavedPlan
from upgrader.model.version import KubernetesVersion

__all__ = ["VALID", "BoundPlan", "SavedFile", "bind", "read_plan", "refuse_other_run", "write_plan"]

VALID = timedelta(hours=24)
"""For how long a saved plan may be run: the checks' findings that somebody approved it by grow old."""

_MOST_BYTES = 64 * 1024 * 1024
_REMEDY = "Make a new plan with `upgrader plan --out FILE`, and have it approved again."


@dataclass(frozen=True)
class BoundPlan:
    """What a plan is bound to, and how its inputs are read again."""

    binding: PlanBinding
    read_inputs: Callable[[], tuple[BoundInput, ...]]
    key: bytes

    def refuse_changes(self) -> None:
        """Raise StepFailed where an input is no longer what it was: Ansible and Helm read files when a step begins."""
        changed = tuple(self.binding.changed_inputs(self.read_inputs()))
        if changed:
            lines = ["an input changed during the run, so that the step was not begun:", *changed]
            raise StepFailed("\n".join(lines), remedy=_REMEDY)


def bind(session: Session, observed: Observed, plan: Plan, file: Path) -> BoundPlan:
    """What a plan is made from, here and now. `file`: where it is saved, which is no input.

    Raises ApiError where the cluster can't be told from another one, UsageError where an input can't be read.
    """
    steps = [step for step in plan.steps if isinstance(step, PlannedRelease)]
    releases = tuple(_release(step, observed) for step in steps)
    key = records_key(session.tools.kube, zip(releases, (step.spec.namespace for step in steps), strict=True))

    def read_inputs() -> tuple[BoundInput, ...]:
        return plan_inputs(session.settings, plan, key, (file,))

    names = tuple(step.name for step in plan.steps)
    uid = session.cluster_uid()
    return BoundPlan(
        PlanBinding(__version__, uid, plan.current, plan.target, names, releases, read_inputs()), read_inputs, key
    )


def _release(step: PlannedRelease, observed: Observed) -> BoundRelease:
    history = observed.releases[step.name].history
    if not history:
        return BoundRelease(step.name, 0, "", 0)
    good = last_good(history)
    return BoundRelease(step.name, history[-1].number, history[-1].status, good.number if good else 0)


def write_plan(path: Path, bound: BoundPlan, document: PlanDocument, now: datetime) -> None:
    """Write a saved plan (mode 0600): the binding, the plan itself for those who approve it, secrets masked, and a seal
    over both.

    Raises UsageError where the file can't be written.
    """
    saved = SavedPlan(FORMAT_VERSION, now.isoformat(), (now + VALID).isoformat(), bound.binding)
    content = {**to_json(saved, mask=False), "plan": to_json(document)}
    content["seal"] = _seal(content, bound.key)
    if path.exists() and not path.is_file():
        raise UsageError(f"the plan can't be written to {path}: it is no regular file")
    try:
        write_atomic(path, (json.dumps(content, indent=2) + "\n").encode())
    except OSError as error:
        raise UsageError(f"the plan can't be written to {path}: {error.strerror}") from error


@dataclass(frozen=True)
class SavedFile:
    """A saved plan as it was read, and the whole content of its file."""

    saved: SavedPlan
    content: Mapping[str, Any]

    @property
    def target(self) -> KubernetesVersion:
        """The version that it upgrades to."""
        return self.saved.binding.target


def refuse_other_run(file: SavedFile, now: BoundPlan, time: datetime) -> None:
    """Raise Inhibited, naming each thing that differs, unless a run would be exactly what was saved."""
    differences = list(file.saved.differences(now.binding, time))
    # The seal's key is made of the releases: where those differ, it says nothing.
    if file.saved.binding.same_key(now.binding) and not hmac.compare_digest(
        str(file.content.get("seal")).encode(), _seal(file.content, now.key).encode()
    ):
        differences.append("the file was changed after it was saved: its seal doesn't fit")
    if differences:
        raise Inhibited(
            "\n".join(["the saved plan is not what would be run now; nothing was changed:", *differences]),
            remedy=_REMEDY,
        )


def _seal(content: Mapping[str, Any], key: bytes) -> str:
    """An HMAC of all but the seal itself: only who can read Helm's records can make one."""
    sealed = {name: value for name, value in content.items() if name != "seal"}
    return hmac.digest(key, json.dumps(sealed, sort_keys=True).encode(), "sha256").hex()


def read_plan(path: Path) -> SavedFile:
    """Read what a saved plan is bound to. Raises UsageError for a file that is none, or of another format."""
    try:
        if not path.is_file():
            raise ValueError("it is no regular file")
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES // 1024**2} MiB")
        content = json.loads(path.read_text())
        saved: SavedPlan = from_json(SavedPlan, content, "plan")
        if saved.format_version != FORMAT_VERSION:
            raise ValueError(f"its format_version is {saved.format_version}, not {FORMAT_VERSION}")
        if datetime.fromisoformat(saved.expires).tzinfo is None:
            raise ValueError("plan.expires has no time zone")
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"{path} is not a saved plan: {why}", remedy="Make one with `upgrader plan --out FILE`."
        ) from error
    return SavedFile(saved, content)
