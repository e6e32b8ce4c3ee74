"""The end of patches for each minor of Kubernetes, from the table beside this file, which names its source and date."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files

from upgrader.model.api_lifecycle import Minor
from upgrader.model.version import KubernetesVersion

__all__ = ["SupportEnds", "support_ends"]


@dataclass(frozen=True)
class SupportEnds:
    """The last day with patches of each minor; minors newer than the table are missing."""

    made: date
    ends: Mapping[Minor, date]

    def of(self, version: KubernetesVersion) -> date | None:
        """None if it isn't known."""
        return self.ends.get((version.major, version.minor))


@cache
def support_ends() -> SupportEnds:
    """The table."""
    table = json.loads((files(__package__) / "support_ends.json").read_text(encoding="utf-8"))
    ends = {tuple(map(int, minor.split("."))): date.fromisoformat(day) for minor, day in table["ends"].items()}
    return SupportEnds(date.fromisoformat(table["made"]), {(major, minor): day for (major, minor), day in ends.items()})
