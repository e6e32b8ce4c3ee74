"""The mark of a node that is being upgraded: an annotation of its Node that says how far the upgrade got.

The cordon and the mark are written in one request, and removed in one. So the Node itself shows whether it was cordoned
for its upgrade, and what is left to do, to a process that knows nothing of the run that began it. If the node is taken
out of its load balancer, the mark is written with that request, and removed once the load balancer uses the node again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from upgrader.model.version import KubernetesVersion

__all__ = ["MARK", "NodeMark", "Phase"]

MARK = "upgrader.io/node-upgrade"
"""The annotation."""

Phase = Literal["detach", "drain", "swap", "back", "attach"]
"""`detach`: it is being taken out of the load balancer, nothing else. `drain`: cordoned, otherwise unchanged. `swap`:
its programs may be the old or the new ones. `back`: it failed, and the old ones are being restored. `attach`: it is
upgraded or restored, and only has to return to the load balancer.
"""
_WHY_CHARACTERS = 1000


@dataclass(frozen=True)
class NodeMark:
    """How far the upgrade of a node got."""

    phase: Phase
    cordoned: bool
    """Whether the upgrade cordoned it. False: it was cordoned before and stays so, or it isn't cordoned yet or any more
    (`detach`, `attach`).
    """
    why: str = ""
    """Why it failed; only of `back`."""
    before: KubernetesVersion | None = None
    """What its kubelet reported when its upgrade began; None if the mark doesn't say."""
    detached: bool = False
    """Whether the upgrade had it taken out of the load balancer. False: it wasn't taken out, or was out already."""

    def text(self) -> str:
        """As the annotation has it."""
        fields: dict[str, Any] = {"phase": self.phase, "cordoned": self.cordoned}
        fields |= {"before": str(self.before)} if self.before else {}
        fields |= {"detached": True} if self.detached else {}
        return json.dumps({**fields, "why": self.why[:_WHY_CHARACTERS]} if self.why else fields)

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> NodeMark | None:
        """The mark of a node; None if it has none.

        A mark that can't be read only says that an upgrade has begun: the upgrade is begun again, and a cordon of
        unknown origin stays.
        """
        text = (node["metadata"].get("annotations") or {}).get(MARK)
        if text is None:
            return None
        try:
            found = json.loads(text)
            if found["phase"] in get_args(Phase):
                before = KubernetesVersion.known(str(found.get("before", "")))
                cordoned, detached = found["cordoned"] is True, found.get("detached") is True
                return cls(found["phase"], cordoned, str(found.get("why", "")), before, detached)
        except (ValueError, KeyError, TypeError, RecursionError):  # the node's own kubelet may write it
            pass
        return cls("drain", cordoned=False)
