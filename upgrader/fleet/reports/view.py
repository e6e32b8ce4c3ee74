"""The content of a campaign's page, as frozen values."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from upgrader.fleet.decide import Wait
from upgrader.fleet.model import Stage
from upgrader.fleet.reports.attempts import Attempt
from upgrader.fleet.reports.axis import exclusion_bars, scale_until, ticks_of, window_bars
from upgrader.fleet.reports.failures import Cause, causes, tone_of
from upgrader.fleet.reports.headline import fleet_headline
from upgrader.fleet.reports.outlook import Upcoming, upcoming
from upgrader.fleet.reports.words import detail, first_line, minute, waiting
from upgrader.fleet.state import ClusterState
from upgrader.fleet.use_cases import FleetStatus
from upgrader.model.time_text import duration
from upgrader.reporting.report.bars import Bar, Scale, Tick, bar
from upgrader.reporting.report.formats import FILES
from upgrader.reporting.report.headline import Headline, Tone

__all__ = ["ClusterRow", "FleetView", "Lane", "NotBegun", "StageRow", "fleet_view"]

_OPEN = 30
"""A stage of more clusters is folded, so that the page begins with an overview."""
_ORDER: tuple[Tone, ...] = ("bad", "back", "open", "active", "idle", "good")


@dataclass(frozen=True)
class Lane:
    """A window, or an exclusion, over the time that is shown."""

    name: str
    what: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class ClusterRow:
    """A cluster."""

    name: str
    tone: Tone
    phase: str
    detail: str
    took: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class NotBegun:
    """Clusters of a stage that no run was begun for, in the same phase for the same reason."""

    tone: Tone
    phase: str
    detail: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class StageRow:
    """A stage."""

    name: str
    tone: Tone
    status: str
    counts: str
    """`3 succeeded, 1 running`."""
    count: int
    bars: tuple[Bar, ...]
    clusters: tuple[ClusterRow, ...]
    """Those that a run was begun for: first what to look at."""
    not_begun: tuple[NotBegun, ...]
    unfolded: bool


@dataclass(frozen=True)
class FleetView:
    """A campaign at a time."""

    campaign: str
    headline: Headline
    now: datetime
    began: datetime
    ended: datetime | None
    counts: Mapping[str, int]
    """By phase; all of them."""
    total: int
    failed: int
    next: str
    """When the next wait ends; "" where no time is known."""
    scale: Scale
    ticks: tuple[Tick, ...]
    now_x: float | None
    """Where now is; None once the campaign has ended."""
    lanes: tuple[Lane, ...]
    stages: tuple[StageRow, ...]
    upcoming: tuple[Upcoming, ...]
    causes: tuple[Cause, ...]
    links: Mapping[str, str]
    """To the report of a cluster's last run, by the cluster's name; not of those that have none here."""
    excluded: tuple[str, ...]


def fleet_view(
    status: FleetStatus, attempts: Mapping[str, Sequence[Attempt]], page: Path | None, now: datetime
) -> FleetView:
    """The view of a campaign that was begun; `page` is the folder that its links begin at, None: no links."""
    state = status.state
    began, shown = state.started or now, state.ended or now
    soon = upcoming(status, now)
    ends = [time for each in soon for time in (each.wait.until, each.closes) if time is not None]
    scale = scale_until(began, shown, ends, over=state.ended is not None)
    rows, failures = _Rows(status, attempts, scale, shown), causes(status)
    return FleetView(
        campaign=state.campaign,
        headline=fleet_headline(status, failures),
        now=now,
        began=began,
        ended=state.ended,
        counts=Counter(state.clusters[each.name].phase for each in status.fleet.clusters),
        total=len(status.fleet.clusters),
        failed=sum(state.clusters[each.name].failed for each in status.fleet.clusters),
        next=next((minute(each.wait.until) for each in soon if each.wait.timed and each.wait.until), ""),
        scale=scale,
        ticks=ticks_of(scale),
        now_x=None if state.ended else scale.x(now),
        lanes=tuple(_lanes(status, scale)),
        stages=tuple(rows.stage(stage) for stage in status.fleet.stages),
        upcoming=soon,
        causes=failures,
        links=dict(_links(status, page)) if page else {},
        excluded=status.fleet.excluded,
    )


def _links(status: FleetStatus, page: Path) -> Iterator[tuple[str, str]]:
    for cluster in status.fleet.clusters:
        run = status.state.clusters[cluster.name].run
        if Path(run).name != run or run == "..":  # from a journal, which others may write
            continue
        report = cluster.folder / "runs" / run / FILES["html"]
        if run and report.is_file() and not report.is_symlink():
            yield cluster.name, quote(os.fsencode(os.path.relpath(report, page)))


def _lanes(status: FleetStatus, scale: Scale) -> Iterator[Lane]:
    for window in status.fleet.windows:
        name = f"{window.cron.text} for {duration(window.seconds)}, {window.zone}"
        yield Lane(name, "window", window_bars(window, scale))
    for exclusion in status.fleet.exclusions:
        name = f"{exclusion.first} to {exclusion.last}, {exclusion.zone}"
        yield Lane(name, "exclusion", exclusion_bars(exclusion, scale))


@dataclass(frozen=True)
class _Rows:
    """Makes rows."""

    status: FleetStatus
    attempts: Mapping[str, Sequence[Attempt]]
    scale: Scale
    shown: datetime
    """Until when an attempt without an end is drawn."""

    def stage(self, stage: Stage) -> StageRow:
        members = [self.status.state.clusters[each.name] for each in self.status.fleet.listed[stage.name]]
        counts = Counter(each.phase for each in members)
        wait = None if self.status.state.ended else self.status.decision.stages.get(stage.name)
        failed = next((each.phase for each in members if each.failed), "")
        begun = [each for each in members if each.attempt]
        tone: Tone = tone_of(failed) if failed else "good" if wait is None else "active" if begun else "idle"
        return StageRow(
            name=stage.name,
            tone=tone,
            status=waiting(_in_brief(wait)) if wait else "done",
            counts=", ".join(f"{count} {phase}" for phase, count in counts.items()),
            count=len(members),
            bars=tuple(self._stage_bars(stage)),
            clusters=tuple(sorted(map(self._cluster, begun), key=lambda row: _ORDER.index(row.tone))),
            not_begun=tuple(self._not_begun([each for each in members if not each.attempt])),
            unfolded=len(members) <= _OPEN,
        )

    def _stage_bars(self, stage: Stage) -> Iterator[Bar]:
        mine = [each for member in self.status.fleet.members[stage.name] for each in self.attempts.get(member.name, ())]
        if not mine:
            return
        ended = max(each.ended or self.shown for each in mine)
        yield bar(self.scale, min(each.began for each in mine), ended, "apply", "runs")
        phases = {self.status.state.clusters[each.name].phase for each in self.status.fleet.members[stage.name]}
        if stage.soak_seconds and not phases & {"waiting", "running"}:
            yield bar(self.scale, ended, ended + timedelta(seconds=stage.soak_seconds), "gates", "soak")

    def _not_begun(self, clusters: Sequence[ClusterState]) -> Iterator[NotBegun]:
        groups: dict[tuple[str, str], list[str]] = {}
        for each in clusters:
            groups.setdefault((each.phase, detail(each, self.status.decision)), []).append(each.name)
        for (phase, said), names in groups.items():
            yield NotBegun(tone_of(phase), phase, said, tuple(names))

    def _cluster(self, each: ClusterState) -> ClusterRow:
        mine = self.attempts.get(each.name, ())
        seconds = sum(((run.ended or self.shown) - run.began).total_seconds() for run in mine)
        return ClusterRow(
            name=each.name,
            tone=tone_of(each.phase),
            phase=each.phase,
            detail=detail(each, self.status.decision),
            took=duration(seconds) if mine else "",
            bars=tuple(bar(self.scale, run.began, run.ended or self.shown, *_kind(run)) for run in mine),
        )


def _in_brief(wait: Wait) -> Wait:
    """Without the further lines of what others said."""
    return replace(wait, reason=first_line(wait.reason), gate=wait.gate and first_line(wait.gate))


def _kind(run: Attempt) -> tuple[str, str]:
    """For the style sheet, and for a pointer that rests on it."""
    match run.outcome:
        case None:
            return "apply", "running"
        case "rolled-back":
            return "undo", "rolled back"
        case "blocked" | "broken":
            return "apply bad", run.outcome
        case "interrupted":
            return "apply cut", run.outcome
        case "succeeded":
            return "apply", run.outcome
