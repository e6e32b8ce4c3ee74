"""A pod as a workload would create it, for a server-side dry run: whether the API would admit it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upgrader.ports import KubeObject

__all__ = ["NO_DRY_RUN", "trial_pod"]

NO_DRY_RUN = "does not support dry run"
"""What the API answers where a webhook has side effects: whether the pod is admitted can't be tried."""

_NAME_LENGTH = 40


def trial_pod(workload: Mapping[str, Any], *, without: frozenset[str] = frozenset()) -> KubeObject:
    """A pod of a workload's template; `without` names fields of its spec that are left out."""
    template = workload["spec"]["template"]
    spec = {key: value for key, value in template["spec"].items() if key not in without}
    known = template.get("metadata") or {}
    meta = {key: known[key] for key in ("labels", "annotations") if key in known}
    name = f"{workload['metadata']['name'][:_NAME_LENGTH]}-dry-run"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "name": name}, "spec": spec}
