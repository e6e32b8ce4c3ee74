"""Digests of the inputs of a run's steps, to detect changes when the run is resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from upgrader.model.event import StepInput
from upgrader.model.plan import Plan, PlannedPlaybook

__all__ = ["changed_inputs", "step_inputs"]


def step_inputs(plan: Plan) -> tuple[StepInput, ...]:
    """The input of each step: chart, namespace and values of a release; the file of a playbook and the roles beside it.

    The same on every machine with the same files, in whatever folder they are.
    """
    inputs = []
    for step in plan.steps:
        if isinstance(step, PlannedPlaybook):
            parts = _files(step.playbook) + _files(step.playbook.parent / "roles")
        else:
            values = json.dumps(step.spec.values, sort_keys=True, default=str)
            parts = [*_files(step.spec.chart), step.spec.namespace.encode(), values.encode()]
        inputs.append(StepInput(step.name, _digest(parts)))
    return tuple(inputs)


def changed_inputs(before: Iterable[StepInput], now: Iterable[StepInput]) -> tuple[str, ...]:
    """The steps whose inputs differ, by name; steps that only one side has are not compared."""
    digests = {item.step: item.digest for item in now}
    return tuple(item.step for item in before if digests.get(item.step, item.digest) != item.digest)


def _files(root: Path) -> list[bytes]:
    """A file's content, or the name and content of each file in a folder; nothing where there is neither."""
    if root.is_file():
        return [root.read_bytes()]
    found = []
    for path in sorted(root.rglob("*")):
        if path.is_file():
            found += [path.relative_to(root).as_posix().encode(), path.read_bytes()]
    return found


def _digest(parts: list[bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "big") + part)
    return total.hexdigest()
