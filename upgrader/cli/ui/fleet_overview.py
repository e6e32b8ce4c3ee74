"""What the live display of a campaign shows, as frozen values: made once for each look, whatever is drawn of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from upgrader.cli.ui.as_typed import with_program
from upgrader.fleet.campaigns import Campaign
from upgrader.fleet.decide import Wait
from upgrader.fleet.model import Stage
from upgrader.fleet.reports.failures import causes
from upgrader.fleet.reports.outlook import Upcoming, upcoming
from upgrader.fleet.reports.words import first_line, minute, soaking
from upgrader.fleet.state import ClusterState
from upgrader.fleet.use_cases import FleetStatus
from upgrader.model.first_few import first_few
from upgrader.model.redaction.printable import printable

__all__ = ["Failures", "Next", "Overview", "Running", "Soaking", "StageCounts", "one_line", "overview"]


@dataclass(frozen=True)
class StageCounts:
    """A stage, with how many of its clusters are where."""

    name: str
    total: int
    succeeded: int
    running: int
    failed: int
    left_out: int
    waits: str = ""
    """`waits until 2026-12-01 22:00Z for its window`; "" where its clusters say all, or nothing is waited for."""
    over: bool = False
    """Whether the next stage may begin."""

    @property
    def waiting(self) -> int:
        """Also those that were interrupted, and are resumed without a person."""
        return self.total - self.succeeded - self.running - self.failed - self.left_out

    @property
    def begun(self) -> bool:
        return self.waiting < self.total


@dataclass(frozen=True)
class Running:
    """A cluster whose run is in progress."""

    name: str
    output: Path
    """The folder of its attempt."""
    since: datetime | None


@dataclass(frozen=True)
class Soaking:
    """Clusters that were upgraded, in the same state in the soak of a stage; `since` the last of their runs ended."""

    names: str
    said: str
    since: datetime | None
    troubled: bool


@dataclass(frozen=True)
class Failures:
    """Clusters that failed, or can't begin, for one cause."""

    phase: str
    """Or what is the matter, such as `unreachable`."""
    names: str
    reason: str


@dataclass(frozen=True)
class Next:
    """What happens next."""

    said: str
    until: datetime | None
    """None: when a person has acted."""


@dataclass(frozen=True)
class Overview:
    """A campaign after a look. Every text of it is one line that a terminal may show."""

    title: str
    campaign: str
    started: datetime | None
    ended: datetime | None
    paused: bool
    stop: str
    """Why no cluster begins; "" where nothing forbids it."""
    stages: tuple[StageCounts, ...]
    running: tuple[Running, ...]
    """The longest first, so that each stays in its place."""
    soaking: tuple[Soaking, ...]
    failures: tuple[Failures, ...]
    next: Next | None


def overview(status: FleetStatus, now: datetime, program: str = "upgrader") -> Overview:
    """Of a campaign that was begun; its commands can be copied: `program` is how the operator calls upgrader for it."""
    state = status.state

    def typed(text: str) -> str:
        return one_line(with_program(text, ("fleet",), program))

    running = sorted(
        (each for each in state.clusters.values() if each.phase == "running"),
        key=lambda each: (each.since or now, each.name),
    )
    stop = status.decision.stop  # it has a line of its own
    found = (each for each in upcoming(status, now) if each.wait.reason != stop)
    coming = (each for each in found if each.wait.until or each.wait.person)
    return Overview(
        title=f"Fleet {status.fleet.goal}",
        campaign=one_line(state.campaign),
        started=state.started,
        ended=state.ended,
        paused=state.paused is not None,
        stop="" if state.ended else typed(stop),
        stages=tuple(_stage(each, status, typed) for each in status.fleet.stages),
        running=tuple(_running(each, status.campaign) for each in running if status.campaign),
        soaking=tuple(_soaking(status)),
        failures=tuple(
            Failures(each.what, one_line(first_few(each.clusters)), typed(first_line(each.text)))
            for each in causes(status)
        ),
        next=next((_next(each, typed) for each in coming), None),
    )


def one_line(text: str) -> str:
    """The text as a row may have it: printable, and without line breaks and tabs."""
    return " ".join(printable(text).split())


def _running(each: ClusterState, campaign: Campaign) -> Running:
    return Running(one_line(each.name), campaign.attempt(each.name, each.attempt), each.since)


def _stage(stage: Stage, status: FleetStatus, typed: Callable[[str], str]) -> StageCounts:
    members = [status.state.clusters[each.name] for each in status.fleet.members[stage.name]]
    phases = Counter(each.phase for each in members)
    open_ = status.state.ended is None
    return StageCounts(
        name=one_line(stage.name),
        total=len(members),
        succeeded=phases["succeeded"],
        running=phases["running"],
        failed=sum(each.failed for each in members),
        left_out=phases["skipped"],
        waits=typed(_waits(stage, members, status)) if open_ else "",
        over=stage.name not in status.decision.stages,
    )


def _waits(stage: Stage, members: Sequence[ClusterState], status: FleetStatus) -> str:
    """What the stage waits for, or else most of its clusters: those that wait for a person come first."""
    wait, stop = status.decision.stages.get(stage.name), status.decision.stop
    if wait is None or wait.reason == stop:
        return ""
    waits = (status.decision.waits.get(each.name) for each in members)
    groups = Counter(each for each in waits if each is not None and each.reason != stop)
    if groups and wait not in groups:
        most, count = max(groups.items(), key=lambda group: (group[0].person, group[1]))
        return f"{f'{count} of its clusters' if count > 1 else '1 cluster'}: {_said(most, 'waiting')}"
    begin = {start.cluster for start in status.decision.starts}
    if not groups and any(each.phase == "running" or each.name in begin for each in members):
        return ""
    return _said(wait)


def _said(wait: Wait, waits: str = "waits") -> str:
    """With the time first: a reason may be longer than the line."""
    return soaking(wait) or wait.said(f"{waits} until {minute(wait.until)}" if wait.until else waits)


def _soaking(status: FleetStatus) -> Iterator[Soaking]:
    """Clusters with the same text are one line; what keeps a soak from its end comes first."""
    groups: dict[str, list[ClusterState]] = {}
    for stage in status.fleet.stages:
        if not stage.soaks or stage.name not in status.decision.stages or status.state.ended:
            continue
        for cluster in status.fleet.listed[stage.name]:
            each = status.state.clusters[cluster.name]
            if each.phase == "succeeded":
                groups.setdefault(_soak(each), []).append(each)
    for said, mine in sorted(groups.items(), key=lambda group: not group[0]):
        names = one_line(first_few([each.name for each in mine]))
        yield Soaking(names, one_line(f"soak: {said}" if said else "soak"), _latest(mine), bool(said))


def _soak(each: ClusterState) -> str:
    if each.gate_shut:
        gate = f"gate {each.gate} doesn't pass" if each.gate else "its gates are unknown"
        return first_line(f"{gate}: {each.gate_reason}" if each.gate_reason else gate)
    if each.soak_reason:
        return first_line(each.soak_reason)
    return f"pod {each.chosen.pod} is being restarted" if each.chosen and not each.pod_restarted else ""


def _latest(clusters: Iterable[ClusterState]) -> datetime | None:
    return max((each.since for each in clusters if each.since is not None), default=None)


def _next(first: Upcoming, typed: Callable[[str], str]) -> Next:
    who = first_few(first.clusters, 1) if first.clusters else first.who
    return Next(typed(f"{who}: {first_line(first.what)}"), first.wait.until)
