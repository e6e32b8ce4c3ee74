"""A Prometheus whose series a test sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from upgrader.errors import ServiceError
from upgrader.model.observability import Series

__all__ = ["FakePrometheus"]


@dataclass
class FakePrometheus:
    """`ports.Prometheus`. Each query has series with a value at any time, until a test sets shorter `values`.

    `series` is by query; a missing query has no series. `lost` is how many of the newest values exist; None: all.
    """

    series: dict[str, tuple[tuple[Mapping[str, str], float], ...]] = field(default_factory=dict)
    lost: int | None = None
    refused: str = ""
    """Why no query is answered; "": queries are answered."""
    asked: list[tuple[str, int, int]] = field(default_factory=list)

    def values(self, query: str, *, points: int, step_seconds: int) -> tuple[Series, ...]:
        self.asked.append((query, points, step_seconds))
        if self.refused:
            raise ServiceError(self.refused)
        if query.count("(") != query.count(")"):
            raise ServiceError("it refused the query: invalid parameter: parse error")
        count = points if self.lost is None else min(points, self.lost)
        return tuple(Series(labels, (value,) * count) for labels, value in self.series.get(query, ()) if count)
