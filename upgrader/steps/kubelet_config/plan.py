"""What nodes get that join later, as it is planned. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from upgrader.engine.execution.input_files import canonical
from upgrader.model.observed import Observed
from upgrader.model.own_steps import KUBELET_CONFIG
from upgrader.model.redaction.patterns import mask_patterns
from upgrader.steps.planned import PlannedStep
from upgrader.steps.step_document import NOTHING_TO_UNDO, ObjectChange, Undo

__all__ = ["PlannedKubeletConfig", "plan_kubelet_config"]


@dataclass(frozen=True)
class PlannedKubeletConfig(PlannedStep):
    """Fields of ConfigMap `kubelet-config`, and those of them that it lacks: nodes that join get what is there."""

    fields: Mapping[str, Any]
    lacking: tuple[str, ...]
    """As `authentication.anonymous.enabled`."""
    name: str = KUBELET_CONFIG

    kind: ClassVar = "kubelet-config"
    disturbs: ClassVar = False

    @property
    def action(self) -> Literal["upgrade", "unchanged"]:
        return "upgrade" if self.lacking else "unchanged"

    @property
    def summary(self) -> str:
        return f"set {', '.join(self.lacking)}" if self.lacking else "nothing to change"

    @property
    def changes(self) -> tuple[ObjectChange, ...]:
        """The fields that change. The rest of the text isn't shown: others wrote it, and may have kept secrets."""
        if not self.lacking:
            return ()
        wanted = (f"+{name}: {json.dumps(_at(self.fields, name))}" for name in self.lacking)
        diff = mask_patterns("\n".join(["--- now", "+++ planned", *wanted]))
        return (ObjectChange("ConfigMap kube-system/kubelet-config", "changed", diff),)

    @property
    def way_back(self) -> Undo:
        return Undo(self.kind, text="restore the previous fields") if self.lacking else NOTHING_TO_UNDO

    def inputs(self) -> Mapping[str, str]:
        return {"fields": canonical(self.fields)}

    def once_done(self, observed: Observed) -> Observed:
        return replace(observed, kubelet=observed.kubelet.having(self.fields) if observed.kubelet else None)


def _at(fields: Mapping[str, Any], path: str) -> Any:
    """A field by its path; its own name may have dots."""
    first = next((name for name in fields if path == name or path.startswith(f"{name}.")), "")
    return fields[first] if path == first else _at(fields[first], path[len(first) + 1 :])


def plan_kubelet_config(fields: Mapping[str, Any], observed: Observed) -> tuple[PlannedKubeletConfig, ...]:
    """A step that has nodes which join later get these fields; () where kubeadm didn't make the cluster.

    () where what is written there can't be changed, too: a check says so.
    """
    if observed.kubelet is None or not fields:
        return ()
    try:
        observed.kubelet.having(fields)
        return (PlannedKubeletConfig(fields, observed.kubelet.lacks(fields)),)
    except ValueError:
        return ()
