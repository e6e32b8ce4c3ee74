"""What a rehearsal found, as its program answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from upgrader.steps.rehearsal.differences import Difference

__all__ = ["Result", "result_of"]


@dataclass(frozen=True)
class Result:
    """What a rehearsal found, and what it did: `counts` of requests by what they were."""

    controller: str
    """Of which the data is."""
    differences: tuple[Difference, ...]
    counts: dict[str, int]
    seconds: float
    peak_bytes: int
    rehearsal_host: str = ""
    """Where both versions were compared; "": on the controller."""


def result_of(controller: str, rehearsal_host: str, answer: dict[str, Any]) -> Result:
    """Raises ValueError, KeyError, TypeError or AttributeError for an answer of another form."""
    return Result(
        controller,
        tuple(
            Difference(
                str(each["what"]),
                str(each["resource"]),
                str(each["reason"]),
                int(each["count"]),
                tuple(map(str, each["names"])),
            )
            for each in answer["findings"]
        ),
        {str(name): int(number) for name, number in answer.get("counts", {}).items()},
        float(answer.get("seconds", 0)),
        int(answer.get("peak", 0)),
        rehearsal_host,
    )
