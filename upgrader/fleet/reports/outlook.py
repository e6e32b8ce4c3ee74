"""What is next in a campaign: what is waited for, by whom, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from upgrader.fleet.decide import Wait, needed_seconds
from upgrader.fleet.reports.words import awaited
from upgrader.fleet.use_cases import FleetStatus
from upgrader.fleet.windows import next_opening
from upgrader.model.first_few import first_few
from upgrader.model.natural_order import in_natural_order

__all__ = ["Upcoming", "upcoming"]

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Upcoming:
    """One wait, and all of a stage that share it."""

    stage: str
    clusters: tuple[str, ...]
    """() where the stage itself waits."""
    wait: Wait
    closes: datetime | None = None
    """When the window ends that opens at the end of this wait; None: it isn't one for a window, or nothing ends it."""

    @property
    def what(self) -> str:
        """`its window`, `the end of its soak`."""
        return awaited(self.wait)

    @property
    def who(self) -> str:
        """`stage production`, or `production: eu-1, eu-2, eu-3 and 94 more`."""
        return f"{self.stage}: {first_few(self.clusters)}" if self.clusters else f"stage {self.stage}"


def upcoming(status: FleetStatus, now: datetime) -> tuple[Upcoming, ...]:
    """Of a campaign that has no end yet: those with a time first, in its order, then those that wait for a person."""
    if not status.state.open:
        return ()
    found = (*_stages(status), *_clusters(status, now))
    return tuple(sorted(found, key=lambda each: (each.wait.until or _NEVER, not each.wait.person)))


def _stages(status: FleetStatus) -> Iterator[Upcoming]:
    """Waits of stages that none of their clusters has: for an approval, or for the end of a soak."""
    for stage in status.fleet.stages:
        wait = status.decision.stages.get(stage.name)
        left = [each for each in status.fleet.members[stage.name] if each.name in status.decision.waits]
        if wait is not None and (wait.person or wait.until) and not left:
            yield Upcoming(stage.name, (), wait)


def _clusters(status: FleetStatus, now: datetime) -> Iterator[Upcoming]:
    fleet, needed = status.fleet, needed_seconds(status.fleet, status.state)
    closes: dict[tuple[tuple[str, str], ...], tuple[datetime, datetime | None] | None] = {}
    groups: dict[tuple[str, Wait, datetime | None], list[str]] = {}
    for cluster in fleet.clusters:
        wait = status.decision.waits.get(cluster.name)
        if wait is None:
            continue
        end = None
        if wait.timed:
            labels = tuple(sorted(cluster.labels.items()))
            if labels not in closes:
                opening = next_opening(cluster.labels, fleet.windows, fleet.exclusions, now, needed)
                closes[labels] = (opening.begins, opening.ends) if opening else None
            opens = closes[labels]
            end = opens[1] if opens and now < opens[0] == wait.until else None
        groups.setdefault((fleet.stage_of[cluster.name].name, wait, end), []).append(cluster.name)
    for (stage, wait, end), names in groups.items():
        yield Upcoming(stage, tuple(in_natural_order(names)), wait, end)
