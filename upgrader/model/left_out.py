"""The mark of a controller that runs leave out while it is down: an annotation of its Node.

The label of the control plane is removed in the request that writes the mark, and restored in the one that begins the
return. So the Node itself shows every command how many controllers take part, and how far leaving out or returning got.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from upgrader.model.version import KubernetesVersion

__all__ = ["CONTROL_PLANE", "LEFT_OUT", "LeftOut", "LeftOutPhase"]

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
"""The label by which kubeadm marks a controller, and the releases choose their nodes."""

LEFT_OUT = "upgrader.io/left-out"
"""The annotation."""

LeftOutPhase = Literal["leaving", "out", "returning"]
"""`leaving`: the releases may still count it. `out`: they don't. `returning`: they may count it again."""


@dataclass(frozen=True)
class LeftOut:
    """That a controller is left out."""

    phase: LeftOutPhase
    version: KubernetesVersion | None
    """The oldest version that its checkpoints may start; None if that isn't known."""
    newest: KubernetesVersion | None = None
    """The newest one, where it is another: it died in the middle of an upgrade, or of its return."""

    @property
    def span(self) -> str:
        """Which versions it may start, as a person reads it."""
        if self.version is None:
            return "its version"
        return f"{self.version}" + (f" or {self.newest}" if self.newest else "")

    def starting(self, *versions: KubernetesVersion) -> LeftOut:
        """The same, which may start these as well. An oldest version that isn't known stays so."""
        known = [each for each in (self.version, self.newest, *versions) if each is not None]
        newest = max(known, default=None)
        oldest = min(known) if self.version is not None else None
        return LeftOut(self.phase, oldest, newest if newest != oldest else None)

    def in_phase(self, phase: LeftOutPhase) -> LeftOut:
        """The same, which got so far."""
        return replace(self, phase=phase)

    def text(self) -> str:
        """As the annotation has it."""
        more = {"newest": str(self.newest)} if self.newest else {}
        return json.dumps({"phase": self.phase, "version": str(self.version or ""), **more})

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> LeftOut | None:
        """The mark of a node; None if it has none. One that can't be read says that leaving out has begun."""
        text = (node["metadata"].get("annotations") or {}).get(LEFT_OUT)
        if text is None:
            return None
        try:
            found = json.loads(text)
            if found["phase"] in get_args(LeftOutPhase):
                newest = KubernetesVersion.known(str(found.get("newest", "")))
                return cls(found["phase"], KubernetesVersion.known(str(found["version"])), newest)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # the node's own kubelet may write it
            pass
        return cls("leaving", None)
