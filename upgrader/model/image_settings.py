"""The operator's settings of images, which nodes pull before a run changes anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upgrader.model.health_before import IntOrPercent

__all__ = ["ImageSettings"]

_TENTH, _FEW, _CONNECTIONS = IntOrPercent(percent=10), 10, 100


@dataclass(frozen=True)
class ImageSettings:
    """Whether a run has the nodes pull its images before it changes anything, and how."""

    pull: bool = True
    deadline_seconds: float = 600.0
    """For the images of one node."""
    parallel: IntOrPercent | None = None
    """How many nodes pull, or have images imported, at the same time; None: a tenth of them, and at least 10."""
    bundle: Path | None = None
    """The file from which images are imported before any node pulls."""

    def at_once(self, nodes: int) -> int:
        """How many of this many nodes get images at the same time.

        A tenth is how many nodes kube-proxy is replaced on at once: without this step, as many would pull then.
        """
        return self.parallel.at_once(nodes) if self.parallel is not None else max(_FEW, _TENTH.at_once(nodes))

    def imported_at_once(self, nodes: int) -> int:
        """The same if all images come from this machine, over one connection to each node."""
        return min(self.parallel.at_once(nodes), _CONNECTIONS) if self.parallel is not None else _FEW
