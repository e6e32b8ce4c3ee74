"""PodProtectors (podseidon.kubewharf.io/v1alpha1), as far as gates and checks read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["SILENT_SECONDS", "Cell", "PodProtector"]

SILENT_SECONDS = 120.0
"""After this time without a report, a cell's aggregator counts as absent. If nothing changes, guard's aggregator hears
of its API server about once a minute, and writes that within another half minute.
"""


@dataclass(frozen=True)
class Cell:
    """A cluster that has pods of the protected workload."""

    name: str
    total: int
    available: int
    counted: str
    """`lastEventTime` of its aggregator, as written there; "" before it has counted."""


@dataclass(frozen=True)
class PodProtector:
    """The required number of pods, and the number that is certain."""

    namespace: str
    name: str
    minimum: int
    estimate: int | None
    """Pods that are available in all cells, minus the allowed deletions; None before any aggregator has counted."""
    cells: tuple[Cell, ...]
    selector: Mapping[str, Any] = field(default_factory=dict)
    """Of the pods that may be kept from going."""

    def __str__(self) -> str:
        return f"PodProtector {self.place}"

    @property
    def place(self) -> str:
        """Its namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def never_counted(self) -> str:
        """What no aggregator has ever counted, as a sentence; "" if everything is counted."""
        if self.estimate is None or not self.cells:
            return f"{self}: no aggregator has counted its pods yet"
        cells = [cell.name for cell in self.cells if not cell.counted]
        return f"{self}: no aggregator has counted the pods of cell {', '.join(cells)} yet" if cells else ""

    @property
    def below(self) -> str:
        """By how much it is below its minimum, as a sentence; "" if it isn't."""
        if self.estimate is None or self.estimate >= self.minimum:
            return ""
        each = ", ".join(f"{cell.available} in {cell.name}" for cell in self.cells)
        waits = sum(cell.available for cell in self.cells) - self.estimate
        less = f", minus {waits} with an allowed deletion" if waits > 0 else ""
        return f"{self}: at least {self.estimate} pods are available ({each}{less}), {self.minimum} are required"

    @property
    def never_allows(self) -> bool:
        """Whether none of its pods may go even while all that there are are available."""
        total = sum(cell.total for cell in self.cells)
        return self.estimate is not None and 0 < total <= self.minimum

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> PodProtector:
        """From the API's object."""
        meta, status = found["metadata"], found.get("status") or {}
        estimate = (status.get("summary") or {}).get("estimatedAvailableReplicas")
        return cls(
            namespace=meta.get("namespace", ""),
            name=meta["name"],
            minimum=int((found.get("spec") or {}).get("minAvailable") or 0),
            estimate=int(estimate) if estimate is not None else None,
            cells=tuple(map(_cell, status.get("cells") or ())),
            selector=(found.get("spec") or {}).get("selector") or {},
        )


def _cell(found: Mapping[str, Any]) -> Cell:
    counts = found.get("aggregation") or {}
    return Cell(
        name=str(found.get("cellID", "")),
        total=int(counts.get("totalReplicas") or 0),
        available=int(counts.get("availableReplicas") or 0),
        counted=str(counts.get("lastEventTime") or ""),
    )
