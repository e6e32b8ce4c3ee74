"""A digest of each input of a plan: every file that a run may read, and what each chart renders to.

They are keyed: values and inventories hold secrets, which nobody who reads a saved plan may find out by guessing. The
key is made of Helm's own records in the cluster. Whoever can read those knows the secrets already, every machine that
can run the plan can read them, and a plan is bound to them anyway, so that none has to be kept anywhere.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Collection, Iterable
from pathlib import Path

from upgrader.engine.execution.input_files import file_digests
from upgrader.errors import UsageError
from upgrader.gates.kubernetes_kinds import SECRETS
from upgrader.model.plan import Plan, PlannedPlaybook
from upgrader.model.saved_plan import BoundInput, BoundRelease
from upgrader.model.settings import Settings
from upgrader.ports import Kube

__all__ = ["plan_inputs", "records_key"]

_NOT_READ = ("runs", ".git")
"""What the run writes itself, and what nothing reads."""


def records_key(kube: Kube, namespaces: Iterable[tuple[BoundRelease, str]]) -> bytes:
    """The key: a digest of Helm's newest record of each release that is installed, and of the record's UID.

    Raises UsageError where there is none, ApiUnavailable or ApiError where they can't be read.
    """
    parts = []
    for release, namespace in namespaces:
        if release.revision:
            record = kube.get(SECRETS, f"sh.helm.release.v1.{release.name}.v{release.revision}", namespace)
            if record is not None:
                parts.append([release.name, record["metadata"]["uid"], record.get("data")])
    if not parts:
        raise UsageError(
            "a plan can't be saved: Helm has no record of any release in a Secret, and its key is made of those",
            remedy="Adopt the cluster first (upgrader adopt); with another HELM_DRIVER, plans can't be saved.",
        )
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()


def plan_inputs(settings: Settings, plan: Plan, key: bytes, leave_out: Collection[Path]) -> tuple[BoundInput, ...]:
    """Each input by its name in messages. `leave_out`: files in the cluster folder that are no inputs.

    All of the cluster folder counts, whoever reads it: a playbook may include any file. Of what is elsewhere, the
    charts count, the inventory's folder, and the folders of playbooks. Raises UsageError for what can't be read.
    """
    folder = settings.folder.absolute()
    left_out = (*(folder / name for name in _NOT_READ), settings.kubeconfig, *leave_out)
    found = file_digests(folder, "", leave_out=left_out, key=key)
    for name, root in _elsewhere(settings, plan):
        if not root.absolute().is_relative_to(folder):
            found |= file_digests(root, name, leave_out=left_out, key=key)
    for step in plan.steps:
        if not isinstance(step, PlannedPlaybook):
            values = json.dumps([step.spec.namespace, step.spec.values], sort_keys=True, default=str)
            found[f"the values of {step.name}"] = hmac.digest(key, values.encode(), "sha256").hex()
            found[f"what {step.name} renders to"] = hmac.digest(key, step.after.encode(), "sha256").hex()
    return tuple(BoundInput(name, digest) for name, digest in found.items())


def _elsewhere(settings: Settings, plan: Plan) -> Iterable[tuple[str, Path]]:
    yield "the inventory's folder", settings.inventory.parent
    for step in plan.steps:
        if isinstance(step, PlannedPlaybook):
            yield f"the folder of {step.playbook.name}", step.playbook.parent
            if step.undo is not None:
                yield f"the folder of {step.undo.name}", step.undo.parent
        else:
            yield f"the chart of {step.name}", step.spec.chart
