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
from upgrader.errors import ApiError, UpgraderError
from upgrader.fleet.campaigns import Campaign
from upgrader.fleet.clusters import Answer
from upgrader.fleet.decide import Decision, Start, decide
from upgrader.fleet.events import (
    CampaignEnded,
    ClusterChecked,
    ClusterEnded,
    ClusterSkipped,
    ClusterStarting,
    Problem,
    SoakChecked,
)
from upgrader.fleet.inputs import folder_digest
from upgrader.fleet.model import Fleet, FleetCluster
from upgrader.fleet.outcomes import CommandEnd, result_of
from upgrader.fleet.state import CampaignState, ClusterState
from upgrader.ports import Clock

__all__ = ["IDLE_SECONDS", "LOOK_SECONDS", "Coordinator", "Executor", "goes_on"]

LOOK_SECONDS, IDLE_SECONDS = 2.0, 15.0
"""Between two looks, while a run is in progress and while none is."""
_ASK_AGAIN_SECONDS = 60.0


class Executor(Protocol):
    """Where runs are carried out. An attempt is known by its folder."""

    def start(self, attempt: Path, arguments: Sequence[str]) -> None:
        """Begin a run with these arguments of `upgrader`, unless that attempt is running. Raises UsageError."""
        ...

    def running(self, attempt: Path) -> bool:
        """Whether it is running."""
        ...

    def end(self, attempt: Path) -> CommandEnd | None:
        """How an attempt ended that isn't running; None if it couldn't say."""
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
    ask: Callable[[Path], Answer]
    """Asks a cluster folder's cluster, as `ask_cluster`."""
    _asked: dict[str, float] = field(default_factory=dict)
    """When a cluster was asked last, on the monotonic clock."""
    _known: CampaignState | None = None
    """What the journal says, which only this coordinator writes."""

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
        held = self.campaign.changed_files(self.folder)
        decision = decide(self.fleet, state, self.clock.now(), held)
        if self._act(decision, state):
            state = self.campaign.journaled()
            decision = decide(self.fleet, state, self.clock.now(), held)
        self._known = state
        return decision, state

    def _act(self, decision: Decision, state: CampaignState) -> bool:
        """Do what was decided; whether that was anything."""
        for skip in decision.skips:
            self.journal.emit(ClusterSkipped(skip.cluster, "", skip.reason))
        for start in decision.starts:
            self._start(start, state.clusters[start.cluster])
        ended = decision.done and state.ended is None
        if ended:
            self.journal.emit(CampaignEnded(self.campaign.name))
        found = [self._check(self.fleet.by_name[name], state.clusters[name]) for name in decision.checks]
        found += [self._soak(self.fleet.by_name[name], state.clusters[name]) for name in decision.soaks]
        return bool(decision.skips or decision.starts or ended or any(found))

    def _collect(self, state: CampaignState) -> bool:
        """Write down which runs have ended."""
        found = False
        for cluster in state.clusters.values():
            if cluster.phase != "running":
                continue
            attempt = self.campaign.attempt(cluster.name, cluster.attempt)
            if self.executor.running(attempt):
                continue
            assert cluster.since is not None, "it was begun"
            result = result_of(
                self.executor.end(attempt),
                cluster.name,
                self.fleet.by_name[cluster.name].folder,
                self.fleet.target,
                before=cluster.before,
                resumed=bool(cluster.run),
            )
            # A coordinator that was away for a night has not made the run any longer.
            seconds = max(0.0, ((result.time or self.clock.now()) - cluster.since).total_seconds())
            self.journal.emit(
                ClusterEnded(
                    cluster.name,
                    cluster.attempt,
                    result.outcome,
                    seconds,
                    result.run,
                    result.cause,
                    result.reason,
                )
            )
            found = True
        return found

    def _start(self, start: Start, state: ClusterState) -> None:
        cluster = self.fleet.by_name[start.cluster]
        problem, reason = self._other_cluster(cluster) if start.resume else self._problem(cluster, state)
        if problem:
            self._asked[cluster.name] = self.clock.monotonic()
            self.journal.emit(ClusterChecked(cluster.name, problem, reason))
            return
        number = state.attempt + 1
        before = newest_name(cluster.folder / "runs")
        self.journal.emit(ClusterStarting(cluster.name, number, start.resume, before))
        arguments = ["-C", str(cluster.folder), "run", "--to", str(self.fleet.target), "--yes", "-o", "json"]
        self.executor.start(
            self.campaign.attempt(cluster.name, number), [*arguments, "--resume"] if start.resume else arguments
        )

    def _check(self, cluster: FleetCluster, state: ClusterState) -> bool:
        """Ask a cluster with a problem again; whether that has changed."""
        if not self._due(cluster.name):
            return False
        problem, reason = self._other_cluster(cluster) if state.active else self._problem(cluster, state)
        if (problem, reason) == (state.problem, state.problem_reason):
            return False
        self.journal.emit(ClusterChecked(cluster.name, problem, reason))
        return True

    def _problem(self, cluster: FleetCluster, state: ClusterState) -> tuple[Problem, str]:
        """Why the cluster must not be begun."""
        if folder_digest(cluster.folder) != state.digest:
            return "changed", (
                "its folder has changed since the campaign began: upgrader fleet approve --changes " + cluster.name
            )
        return self._identity(cluster)

    def _other_cluster(self, cluster: FleetCluster) -> tuple[Problem, str]:
        """Why an interrupted run must not go on. It may restore an API that doesn't answer."""
        problem, reason = self._identity(cluster)
        return ("", "") if problem == "unreachable" else (problem, reason)

    def _identity(self, cluster: FleetCluster) -> tuple[Problem, str]:
        try:
            answer = self.ask(cluster.folder)
        except ApiError as error:
            return "unreachable", error.message
        except UpgraderError as error:
            return "identity", f"it isn't known which cluster its kubeconfig leads to: {error.message}"
        if answer.uid == cluster.uid:
            return "", ""
        return "identity", (
            f"its kubeconfig leads to the cluster with the UID {answer.uid}; the inventory has {cluster.uid}"
        )

    def _soak(self, cluster: FleetCluster, state: ClusterState) -> bool:
        """Ask a cluster at the end of its stage's soak; whether there is anything new."""
        if not self._due(cluster.name):
            return False
        passed, reason = False, ""
        try:
            answer = self.ask(cluster.folder)
            passed = answer.uid == cluster.uid and answer.version == self.fleet.target
            reason = "" if passed else f"{answer.version} of the cluster with the UID {answer.uid} answers"
        except UpgraderError as error:
            reason = error.message
        if not passed and reason == state.soak_reason:
            return False
        self.journal.emit(SoakChecked(cluster.name, passed, reason))
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
    running = any(
        cluster.phase == "running" or (cluster.active and cluster.retried) for cluster in state.clusters.values()
    )
    waits = (*decision.waits.values(), *decision.stages.values())
    timed = any(wait.until is not None and not wait.person for wait in waits)
    return running or timed or bool(decision.starts)
