"""When each attempt at a cluster's run began and ended, which the state of a campaign doesn't keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from upgrader.engine.journal.journal_file import JOURNAL, read_journal
from upgrader.fleet.events import EVENTS, CampaignEvent, ClusterEnded, ClusterStarting, Outcome

__all__ = ["Attempt", "attempts_of", "read_attempts"]


@dataclass(frozen=True)
class Attempt:
    """One attempt at a cluster's run. Times are UTC."""

    began: datetime
    ended: datetime | None = None
    """None: it is in progress, or how it ended isn't known yet."""
    outcome: Outcome | None = None


def attempts_of(events: Iterable[tuple[datetime, object]]) -> Mapping[str, tuple[Attempt, ...]]:
    """By the cluster's name, oldest first; `events` with their times, in their order."""
    found: dict[str, list[Attempt]] = {}
    for time, event in events:
        if isinstance(event, ClusterStarting):
            found.setdefault(event.cluster, []).append(Attempt(time))
        elif isinstance(event, ClusterEnded) and (mine := found.get(event.cluster)):
            # Not when that was written: a coordinator that was away for a night has not made the run any longer.
            ended = mine[-1].began + timedelta(seconds=event.seconds)
            mine[-1] = replace(mine[-1], ended=ended, outcome=event.outcome)
    return {name: tuple(mine) for name, mine in found.items()}


def read_attempts(campaign: Path) -> Mapping[str, tuple[Attempt, ...]]:
    """Those of a campaign's folder. Raises UsageError for a journal that isn't valid."""
    kinds: Mapping[str, type[CampaignEvent]] = EVENTS
    return attempts_of((record.time, record.event) for record in read_journal(campaign / JOURNAL, kinds))
