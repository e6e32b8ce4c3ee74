"""Digests of the inputs of a run's steps, to detect changes when the run is resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from upgrader.engine.execution.input_files import file_digests
from upgrader.model.event import StepInput
from upgrader.model.plan import Plan, PlannedPlaybook

__all__ = ["changed_inputs", "step_inputs"]

_BESIDE = (
    "roles",
    "collections",
    "group_vars",
    "host_vars",
    "vars",
    "files",
    "templates",
    "tasks",
    "handlers",
    "library",
    "module_utils",
    "action_plugins",
    "callback_plugins",
    "connection_plugins",
    "filter_plugins",
    "lookup_plugins",
    "strategy_plugins",
    "test_plugins",
    "vars_plugins",
)
"""The folders beside a playbook from which Ansible takes what it runs without being told to."""


def step_inputs(plan: Plan) -> tuple[StepInput, ...]:
    """The input of each step: chart, namespace and values of a release; a playbook and what Ansible reads beside it.

    The same on every machine with the same files, in whatever folder they are. Raises UsageError for what can't be
    read.
    """
    inputs = []
    for step in plan.steps:
        if isinstance(step, PlannedPlaybook):
            parts = _of_playbook(step.playbook)
        else:
            values = json.dumps(step.spec.values, sort_keys=True, default=str)
            parts = {**file_digests(step.spec.chart, "chart"), "namespace": step.spec.namespace, "values": values}
        inputs.append(StepInput(step.name, _digest(parts)))
    return tuple(inputs)


def changed_inputs(before: Iterable[StepInput], now: Iterable[StepInput]) -> tuple[str, ...]:
    """The steps whose inputs differ, by name; steps that only one side has are not compared."""
    digests = {item.step: item.digest for item in now}
    return tuple(item.step for item in before if digests.get(item.step, item.digest) != item.digest)


def _of_playbook(playbook: Path) -> dict[str, str]:
    found = file_digests(playbook, "playbook")
    for name in _BESIDE:
        found |= file_digests(playbook.parent / name, name)
    return found


def _digest(parts: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
