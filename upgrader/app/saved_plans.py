"""Writes a plan to a file, and reads one: what `upgrader run --plan` is bound to."""

from __future__ import annotations

import hmac
import json
import re
import secrets
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

from upgrader import __version__
from upgrader.app.plan_files import PlanFiles, expiry, write_plan_file
from upgrader.app.plan_inputs import PlanKey, plan_inputs, records_key
from upgrader.app.wiring import Session
from upgrader.errors import Blocked, StepFailed
from upgrader.model.json_values import from_json, to_json
from upgrader.model.observed import Observed
from upgrader.model.release import last_good
from upgrader.model.saved_plan import BoundInput, BoundRelease, PlanBinding, SavedPlan
from upgrader.model.version import KubernetesVersion
from upgrader.steps.images.bundle.reading import Bundle
from upgrader.steps.plan import Plan, planned_of
from upgrader.steps.plan_document import FORMAT_VERSION, PlanDocument
from upgrader.steps.release.plan import PlannedRelease

__all__ = ["VALID", "BoundPlan", "SavedFile", "bind", "read_plan", "seal", "write_plan"]

VALID = timedelta(hours=24)
"""For how long a saved plan may be run: the checks' findings that somebody approved it by grow old."""

_FILES = PlanFiles("a saved plan", FORMAT_VERSION, 8, "upgrader plan --out FILE")
_SEAL = re.compile("[0-9a-f]{64}")
_REMEDY = "Create a new plan with `upgrader plan --out FILE`, and have it approved again."


@dataclass(frozen=True)
class BoundPlan:
    """What a plan is bound to, the key of its digests, and how its inputs are read again."""

    binding: PlanBinding
    key: PlanKey
    read_inputs: Callable[[], tuple[BoundInput, ...]]

    def refuse_changes(self) -> None:
        """Raise StepFailed where an input is no longer what it was: Ansible and Helm read files when a step begins."""
        changed = tuple(self.binding.changed_inputs(self.read_inputs()))
        if changed:
            lines = ["an input changed during the run, so the step was not started:", *changed]
            raise StepFailed("\n".join(lines), remedy=_REMEDY)


@dataclass(frozen=True)
class SavedFile:
    """A saved plan as it was read, and the whole content of its file."""

    path: Path
    saved: SavedPlan
    content: Mapping[str, Any]

    @property
    def target(self) -> KubernetesVersion:
        """The version that it upgrades to."""
        return self.saved.binding.target

    @property
    def _anew(self) -> str:
        return _REMEDY.replace("FILE", shlex.quote(str(self.path)))

    def refuse_expired(self, now: datetime) -> None:
        """Raise Blocked for a plan that has expired: no cluster needs to be asked for that."""
        if self.saved.expired(now):
            raise Blocked(
                f"the saved plan {self.path} expired at {self.saved.expires}; nothing was changed",
                remedy=self._anew,
            )

    def bind_again(self, session: Session, observed: Observed, plan: Plan, bundle: Bundle | None) -> BoundPlan:
        """Raise Blocked, naming each thing that differs, unless a run would be exactly what was saved."""
        now = _binding(session, observed, plan)
        differences = list(self.saved.differences(now, session.tools.clock.now()))
        bound = None
        # Only with the same key can anything be said of the rest: nothing is run without a seal that fits.
        if self.saved.binding.same_key(now):
            bound = _bound(session, plan, now, bundle, self.path, self.saved.salt)
            if hmac.compare_digest(str(self.content["seal"]), seal(self.content, bound.key)):
                differences += self.saved.binding.changed_inputs(bound.binding.inputs)
            else:
                differences.append("the file was changed after it was saved: its seal doesn't match")
        if differences or bound is None:
            what = differences or ["the pipeline's releases have changed"]
            lines = ["the saved plan is out of date; nothing was changed:", *what]
            raise Blocked("\n".join(lines), remedy=self._anew)
        return bound


def bind(
    session: Session, observed: Observed, plan: Plan, bundle: Bundle | None, file: Path, salt: str | None = None
) -> BoundPlan:
    """What a plan is made from, here and now. `file`: where it is saved, which is no input. `salt`: that of the digests
    to compare with; None: a new one.

    Raises ApiError where the cluster can't be told from another one, UsageError where an input can't be read.
    """
    return _bound(session, plan, _binding(session, observed, plan), bundle, file, salt or secrets.token_hex(32))


def _binding(session: Session, observed: Observed, plan: Plan) -> PlanBinding:
    """All but the inputs."""
    return PlanBinding(
        __version__,
        session.cluster_uid(),
        plan.current,
        plan.target,
        tuple(step.described for step in plan.every_step),
        tuple(_release(step, observed) for step in planned_of(plan, PlannedRelease)),
    )


def _bound(
    session: Session, plan: Plan, binding: PlanBinding, bundle: Bundle | None, file: Path, salt: str
) -> BoundPlan:
    """With the inputs."""
    namespaces = (step.spec.namespace for step in planned_of(plan, PlannedRelease))
    key = PlanKey(records_key(session.tools.kube, zip(binding.releases, namespaces, strict=True)), salt)
    tools = {"Helm": session.tools.helm.version(), "ansible-core": version("ansible-core")}

    def read_inputs() -> tuple[BoundInput, ...]:
        return plan_inputs(session.settings, plan, key, file, tools, bundle.index if bundle else None)

    return BoundPlan(replace(binding, inputs=read_inputs()), key, read_inputs)


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
    saved = SavedPlan(FORMAT_VERSION, now.isoformat(), (now + VALID).isoformat(), bound.key.salt, bound.binding)
    content = {**to_json(saved, mask=False), "plan": to_json(document)}
    content["seal"] = seal(content, bound.key)
    write_plan_file(path, content)


def seal(content: Mapping[str, Any], key: PlanKey) -> str:
    """An HMAC of all but the seal itself: only who can read Helm's records can make one."""
    sealed = {name: value for name, value in content.items() if name != "seal"}
    return key.of("seal", json.dumps(sealed, sort_keys=True).encode()).hexdigest()


def read_plan(path: Path) -> SavedFile:
    """Read what a saved plan is bound to. Raises UsageError for a file that is none, or of another format."""

    def parse(content: dict[str, Any]) -> SavedFile:
        saved: SavedPlan = from_json(SavedPlan, content, "plan")
        expiry(content)
        if not _SEAL.fullmatch(str(content.get("seal"))):
            raise ValueError("it has no seal")
        return SavedFile(path, saved, content)

    return _FILES.read(path, parse)
