"""Digests of the inputs of a run's steps, to detect changes when the run is resumed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from upgrader.engine.execution.input_files import canonical, file_digests
from upgrader.model.etcd_plan import PlannedEtcd
from upgrader.model.event import StepInput
from upgrader.model.plan import (
    Plan,
    PlannedKubeadmConfig,
    PlannedKubeletConfig,
    PlannedNodes,
    PlannedPlaybook,
    PlannedSurge,
)

__all__ = ["changed_inputs", "step_inputs"]

_BESIDE = frozenset(
    {
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
        "doc_fragments",
    }
)
"""The folders beside a playbook, besides `…_plugins`, from which Ansible takes what it runs without being told to."""

_ROLE = ("tasks", "handlers", "defaults", "vars", "meta", "library")
"""A folder with one of these beside a playbook is a role, too."""


def step_inputs(plan: Plan) -> tuple[StepInput, ...]:
    """The input of each step: chart, namespace and values of a release; a playbook and what Ansible reads beside it;
    what a pool's nodes get, and by which playbooks; the playbook that adds its surge nodes, or removes them.

    The same on every machine with the same files, in whatever folder they are. Raises UsageError for what can't be
    read.
    """
    inputs = []
    for step in plan.steps:
        if isinstance(step, PlannedKubeadmConfig):
            continue  # its only input is the run's target
        if isinstance(step, PlannedPlaybook):
            parts = _of_playbook(step.playbook)
        elif isinstance(step, PlannedSurge):
            surge = step.surge
            parts = {**_of_playbook(surge.remove if step.end else surge.add), "nodes": str(surge.nodes)}
        elif isinstance(step, PlannedKubeletConfig):
            parts = {"fields": canonical(step.fields)}
        elif isinstance(step, PlannedEtcd):
            parts = {"image": step.settings.image, "version": str(step.settings.version)}
        elif isinstance(step, PlannedNodes):
            parts = {**file_digests(step.playbooks, "playbooks"), "source": canonical(step.source.at(step.target))}
            if step.configuration.fingerprint:
                parts["configuration"] = step.configuration.fingerprint
        else:
            values = canonical(step.spec.values)
            parts = {**file_digests(step.spec.chart, "chart"), "namespace": step.spec.namespace, "values": values}
        inputs.append(StepInput(step.name, hashlib.sha256(canonical(parts).encode()).hexdigest()))
    return tuple(inputs)


def changed_inputs(before: Iterable[StepInput], now: Iterable[StepInput]) -> tuple[str, ...]:
    """The steps whose inputs differ, by name; steps that only one side has are not compared."""
    digests = {item.step: item.digest for item in now}
    return tuple(item.step for item in before if digests.get(item.step, item.digest) != item.digest)


def _of_playbook(playbook: Path) -> Mapping[str, str]:
    """Of the playbook, and what is beside it: Ansible looks there where the file itself is, not a link to it."""
    found = file_digests(playbook, "playbook")
    for folder in _beside(playbook.resolve().parent):
        found |= file_digests(folder, folder.name)
    return found


def _beside(parent: Path) -> Iterator[Path]:
    for folder in sorted(path for path in parent.glob("*") if path.is_dir()):
        known = folder.name in _BESIDE or folder.name.endswith("_plugins")
        if known or any((folder / part).is_dir() for part in _ROLE):
            yield folder
