"""`upgrader plan --offline`: what a folder asks for, without credentials and without running anything of it.

For merge requests: the author of a change to the folder must not get what a live plan needs. Files are read, and
charts are rendered by Helm, which contacts no cluster for that (`lookup` finds nothing). The inventory is read by
Ansible's own readers of YAML and INI files alone, without variables, plugins and programs, whatever upgrader.yaml
allows. Neither the kubeconfig nor an SSH key is opened.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from upgrader.app.wiring import intended_steps, open_renderer
from upgrader.config.inventory import load_names
from upgrader.config.load import Overrides, load_settings
from upgrader.config.yaml_document import shown
from upgrader.model.version import KubernetesVersion
from upgrader.steps.intended import IntendedStep
from upgrader.steps.plan_document import FORMAT_VERSION
from upgrader.steps.release.plan import IntendedRelease
from upgrader.steps.step_document import ObjectChange

__all__ = ["OfflinePlan", "OfflineStep", "plan_offline"]

_UNKNOWN = (
    "what is installed, and so what a run would actually change: use `upgrader plan`",
    "whether a check would block the run: `upgrader check --offline` checks the folder",
    "whether the cluster would accept the objects (admission, quotas, existing objects)",
)
"""What can't be known without the cluster."""


@dataclass(frozen=True)
class OfflineStep:
    """One step. `changes` compares with the other folder's step of the same name; without one everything is added."""

    name: str
    kind: str
    """`release` or `playbook`"""
    source: str
    """The chart or the playbook."""
    changes: tuple[ObjectChange, ...] = ()


@dataclass(frozen=True)
class OfflinePlan:
    """What a folder asks for."""

    target: KubernetesVersion
    steps: tuple[OfflineStep, ...]
    hosts: Mapping[str, tuple[str, ...]]
    """The names in each group of the inventory."""
    before: KubernetesVersion | None = None
    """The version that the other folder asks for; None when nothing is compared."""
    removed: tuple[str, ...] = ()
    """Steps that only the other folder has. A run leaves their releases as they are."""
    unknown: tuple[str, ...] = _UNKNOWN
    format_version: Literal["1.6"] = FORMAT_VERSION
    offline: Literal[True] = True


def plan_offline(folder: Path, target: KubernetesVersion | None, against: Path | None) -> OfflinePlan:
    """Read and render a folder; with `against`, what it changes of another one. Raises UsageError or HelmError."""
    hosts = load_names(load_settings(folder, os.environ).inventory)
    wanted, steps = _intended(folder, target)
    before, earlier = _intended(against, None) if against else (None, ())
    manifests = {item.spec.name: item.manifest for item in earlier if isinstance(item, IntendedRelease)}
    names = [item.name for item in steps]
    removed = tuple(name for name in (item.name for item in earlier) if name not in names)
    return OfflinePlan(wanted, tuple(_step(item, manifests) for item in steps), hosts, before, removed)


def _intended(folder: Path, target: KubernetesVersion | None) -> tuple[KubernetesVersion, tuple[IntendedStep, ...]]:
    settings = load_settings(folder, os.environ, Overrides(target=target))
    with open_renderer() as helm:
        return settings.target, intended_steps(settings, helm, offline=True)


def _step(item: IntendedStep, earlier: Mapping[str, str]) -> OfflineStep:
    return OfflineStep(item.name, item.kind, shown(item.source), item.changes_from(earlier.get(item.name, "")))
