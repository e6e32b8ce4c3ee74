"""Carries a campaign out: looks, decides, and writes to the journal what it does before it does it.

Killed anywhere, it goes on: what was begun is in the journal, and whether that still runs is known by its executor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from upgrader.engine.history.past_runs import newest_name
from upgrader.engine.journal.journal_file import Journal
from upgrader.errors import UsageError
from upgrader.fleet.campaigns import Campaign
from upgrader.fleet.causes import cause_of
from upgrader.fleet.decide import Decision, Held, Skip, Start, decide
from upgrader.fleet.events import (
    CampaignEnded,
    ClusterChecked,
    ClusterEnded,
    ClusterSkipped,
    ClusterStarting,
    Pins,
    Problem,
    SoakChecked,
)
from upgrader.fleet.inputs import pins_differ
from upgrader.fleet.model import Fleet, FleetCluster
from upgrader.fleet.outcomes import CommandEnd, Result, result_of
from upgrader.fleet.questions import Ask, problem_before, problem_of_resume, soak_problem
from upgrader.fleet.state import CampaignState, ClusterState
from upgrader.ports import Clock

__all__ = ["IDLE_SECONDS", "LOOK_SECONDS", "Coordinator", "Executor", "goes_on"]

LOOK_SECONDS, IDLE_SECONDS = 2.0, 15.0
"""Between two looks, while a run is in progress and while none is."""
_ASK_AGAIN_SECONDS = 60.0
_FRESH_SECONDS = 10.0
"""How long a decision is carried out: windows close, and files change."""
_THE_SAME = "use the one that began it, or begin another campaign: upgrader fleet run --new"


class Executor(Protocol):
    """Where runs are carried out. An attempt is known by its folder."""

    def start(self, attempt: Path, arguments: Sequence[str]) -> None:
        """Begin a run with these arguments of `upgrader`, unless that attempt is running. Raises UsageError."""
        ...

    def running(self, attempt: Path) -> bool:
        """Whether it is running. Raises UsageError if that can't be read."""
        ...

    def end(self, attempt: Path) -> CommandEnd | None:
        """How an attempt ended that isn't running; None if it couldn't say. Raises UsageError if it can't be read."""
        ...


@dataclass
class Coordinator:
    """One coordinator of a campaign; it holds the folder's lock."""

    folder: Path
    """The fleet's."""
    fleet: Fleet
    campaign: Campaign
    journal: Journal
    executor: Executor
    clock: Clock
    ask: Ask
    pins: Callable[[], Pins]
    """What a run would be begun with now, as `own_pins`."""
    _read: tuple[float, Pins] | None = None
    """What that said last, and when, on the monotonic clock."""
    _asked: dict[str, float] = field(default_factory=dict)
    """When a cluster was asked last, on the monotonic clock."""
    _known: CampaignState | None = None
    """What the journal says, which only this coordinator writes."""

    @property
    def over(self) -> bool:
        """Whether the campaign has ended, and no one has asked for more since."""
        return self.campaign.state().ended is not None

    def run(self, show: Callable[[Decision, CampaignState], None]) -> tuple[Decision, CampaignState]:
        """Until the campaign has ended, or nothing goes on without a person. `show` gets each look."""
        while True:
            decision, state = self.look()
            show(decision, state)
            if not goes_on(decision, state):
                return decision, state
            running = any(cluster.phase == "running" for cluster in state.clusters.values())
            self.clock.sleep(LOOK_SECONDS if running else IDLE_SECONDS)

    def look(self) -> tuple[Decision, CampaignState]:
        """Take in what has happened, do what is to be done, and say what is waited for."""
        state = self._known or self.campaign.journaled()
        if self.campaign.take_requests(self.journal, state) | self._collect(state):
            state = self.campaign.journaled()
        decision = self._decide(state)
        if self._act(decision, state):
            state = self.campaign.journaled()
            decision = self._decide(state)
        self._known = state
        return decision, state

    def _decide(self, state: CampaignState) -> Decision:
        if state.ended is not None:
            return Decision(done=True)
        return decide(self.fleet, state, self.clock.now(), self._held(state, _ASK_AGAIN_SECONDS))

    def _held(self, state: CampaignState, fresh_seconds: float = 0.0) -> Held:
        """Why nothing may begin; the program's files, of which there are many, were read at most so long ago."""
        now = self.clock.monotonic()
        if self._read is None or now - self._read[0] >= fresh_seconds:
            self._read = now, self.pins()
        other = pins_differ(state.pins, self._read[1])
        return Held(self.campaign.changed_files(self.folder), other and f"{other}; {_THE_SAME}")

    def _act(self, decision: Decision, state: CampaignState) -> bool:
        """Do what was decided; whether that was anything."""
        begun = self.clock.monotonic()
        for skip in decision.skips:
            self._skip(skip, state.clusters[skip.cluster])
        for start in decision.starts:
            # Each asks a cluster, so that a pause, or an edit, may come between two of them.
            if self.clock.monotonic() - begun > _FRESH_SECONDS or self.campaign.is_asked:
                return True
            held = self._held(state)
            if held.everything or (held.starts and not start.resume):
                return True
            self._start(start, state.clusters[start.cluster])
        ended = decision.done and state.ended is None
        if ended:
            self.journal.emit(CampaignEnded(self.campaign.name))
        found = [self._check(self.fleet.by_name[name], state.clusters[name]) for name in decision.checks]
        found += [self._soak(self.fleet.by_name[name], state.clusters[name]) for name in decision.soaks]
        return bool(decision.skips or decision.starts or ended or any(found))

    def _collect(self, state: CampaignState) -> bool:
        """Write down which runs have ended."""
        ended = [self._has_ended(each) for each in state.clusters.values() if each.phase == "running"]
        return any(ended)

    def _has_ended(self, cluster: ClusterState) -> bool:
        """Write down how a cluster's run ended, or that it isn't known; whether there is anything new."""
        attempt = self.campaign.attempt(cluster.name, cluster.attempt)
        try:
            running = self.executor.running(attempt)
            end = None if running else self.executor.end(attempt)
        except UsageError as error:
            return self._found(cluster, "unknown", f"whether its run is in progress isn't known: {error.message}")
        if running:
            return self._found(cluster, "", "") if cluster.problem == "unknown" else False
        assert cluster.since is not None, "it was begun"
        result = result_of(
            end,
            cluster.name,
            self.fleet.by_name[cluster.name].folder,
            self.fleet.target,
            before=cluster.before,
            resumed=cluster.run if cluster.unended else "",
        )
        # A coordinator that was away for a night has not made the run any longer.
        seconds = max(0.0, ((result.time or self.clock.now()) - cluster.since).total_seconds())
        self._end(cluster, cluster.attempt, result, seconds)
        return True

    def _end(self, cluster: ClusterState, attempt: int, result: Result, seconds: float) -> None:
        self._found(cluster, "", "")
        self.journal.emit(
            ClusterEnded(
                cluster.name, attempt, result.outcome, seconds, result.run, result.cause, result.reason, result.open
            )
        )

    def _found(self, cluster: ClusterState, problem: Problem, reason: str) -> bool:
        """Write down what was found of a cluster; whether that has changed."""
        if (problem, reason) == (cluster.problem, cluster.problem_reason):
            return False
        self.journal.emit(ClusterChecked(cluster.name, problem, reason))
        return True

    def _skip(self, skip: Skip, state: ClusterState) -> None:
        """Leave out a cluster that still doesn't answer: there may have been no coordinator to ask it until now."""
        self._asked[skip.cluster] = self.clock.monotonic()
        problem, reason = self._problem(self.fleet.by_name[skip.cluster], state)
        if problem == "unreachable":
            self.journal.emit(ClusterSkipped(skip.cluster, "", skip.reason))
        else:
            self._found(state, problem, reason)

    def _start(self, start: Start, state: ClusterState) -> None:
        cluster = self.fleet.by_name[start.cluster]
        problem, reason = self._problem(cluster, state, resume=start.resume)
        if problem:
            self._asked[cluster.name] = self.clock.monotonic()
            self._found(state, problem, reason)
            return
        number = state.attempt + 1
        before = newest_name(cluster.folder / "runs")
        self.journal.emit(ClusterStarting(cluster.name, number, start.resume, before))
        arguments = ["-C", str(cluster.folder), "run", "--to", str(self.fleet.target), "--yes", "-o", "json"]
        arguments += ["--approved-inputs", state.digest]
        try:
            self.executor.start(
                self.campaign.attempt(cluster.name, number), [*arguments, "--resume"] if start.resume else arguments
            )
        except UsageError as error:
            run = state.run if start.resume else ""
            cause = cause_of("", error.message, cluster.name)
            self._end(state, number, Result("interrupted", run, cause, error.message, start.resume), 0.0)

    def _check(self, cluster: FleetCluster, state: ClusterState) -> bool:
        """Ask a cluster with a problem again; whether that has changed."""
        if not self._due(cluster.name):
            return False
        return self._found(state, *self._problem(cluster, state, resume=state.active))

    def _problem(self, cluster: FleetCluster, state: ClusterState, *, resume: bool = False) -> tuple[Problem, str]:
        return problem_of_resume(cluster, self.ask) if resume else problem_before(cluster, state.digest, self.ask)

    def _soak(self, cluster: FleetCluster, state: ClusterState) -> bool:
        """Ask a cluster at the end of its stage's soak; whether there is anything new."""
        if not self._due(cluster.name):
            return False
        reason = soak_problem(cluster, self.fleet.target, self.ask)
        if reason and reason == state.soak_reason:
            return False
        self.journal.emit(SoakChecked(cluster.name, not reason, reason))
        return True

    def _due(self, name: str) -> bool:
        """Whether a cluster may be asked again."""
        now = self.clock.monotonic()
        if now - self._asked.get(name, -_ASK_AGAIN_SECONDS) < _ASK_AGAIN_SECONDS:
            return False
        self._asked[name] = now
        return True


def goes_on(decision: Decision, state: CampaignState) -> bool:
    """Whether anything can happen without a person."""
    if decision.done:
        return False
    running = any(each.in_progress for each in state.clusters.values())
    timed = any(wait.timed for wait in (*decision.waits.values(), *decision.stages.values()))
    return running or timed or bool(decision.starts)
