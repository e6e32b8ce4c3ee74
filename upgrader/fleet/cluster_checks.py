"""What a campaign asks of a cluster before a run and in a soak: is it the inventory's, and as it was approved?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from upgrader.config.copied_kubeconfig import UsedKubeconfig
from upgrader.engine.history.journal_in_secrets import secret_name
from upgrader.engine.history.past_runs import newest_of_kind
from upgrader.engine.state.run_state import RunState
from upgrader.errors import ApiError, UpgraderError, UsageError
from upgrader.fleet.at_work import at_work
from upgrader.fleet.clusters import Answer, Answered, other_cluster, private_kubeconfig, requests_answered
from upgrader.fleet.events import ChosenPod, Problem
from upgrader.fleet.inputs import Inputs, folder_digest, folder_place, inputs_of, kubeconfig_of
from upgrader.fleet.model import FleetCluster, Goal, Stage
from upgrader.fleet.open_runs import how_to_end, open_run
from upgrader.fleet.rehearsals import unrehearsed
from upgrader.fleet.soak_gates import GateAnswer, SoakGates
from upgrader.fleet.soak_restart import Restart, restart_pod
from upgrader.fleet.state import ClusterState
from upgrader.fleet.unread_journals import Unread
from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Clock

__all__ = ["Ask", "AskGates", "Fetch", "Found", "Questions", "RestartPod", "at_home"]

Ask = Callable[[Path], Answer]
"""Asks the cluster that a kubeconfig leads to, as `ask_cluster`."""
Fetch = Callable[[Path, Path], Unread]
"""Brings the journals of a cluster's earlier runs into its folder, by a kubeconfig, as `fetch_journals`; returns which
can't be read.
"""


def at_home(_folder: Path, _kubeconfig: Path) -> Unread:
    """Where runs are begun in the cluster folder itself, it has their journals already."""
    return Unread()


class RestartPod(Protocol):
    """As `restart_pod`."""

    def __call__(
        self, kubeconfig: Path, cluster: FleetCluster, chosen: ChosenPod | None, *, may_begin: bool
    ) -> Restart: ...


class AskGates(Protocol):
    """As `SoakGates.ask`."""

    def __call__(
        self, folder: Path, files: str, names: Sequence[str], seconds: float, about: Callable[[GateAnswer], object]
    ) -> GateAnswer: ...


@dataclass(frozen=True)
class Found:
    """What was found of a cluster."""

    problem: Problem = ""
    reason: str = ""
    """Why it isn't begun, or, at the end of a soak, why that hasn't passed; "": nothing is wrong."""
    kubeconfig: UsedKubeconfig | None = None
    """What leads to it, if nothing is wrong, or only its API doesn't answer."""
    counted: Answered | None = None
    """At the end of a soak, or before it: what doesn't count of the API server that was asked, if that is news."""
    gate: GateAnswer | None = None
    """Of the gates of a soak: what they say."""
    restart: Restart | None = None
    """In a soak with a restart: its next step."""
    unended: RunState | None = None
    """Of a cluster that has a run without an end which can be resumed: that run."""


class _Wrong(Exception):
    """Ends the questions about a cluster."""

    def __init__(self, problem: Problem, reason: str) -> None:
        super().__init__(reason)
        self.found = Found(problem, reason)


@dataclass(frozen=True)
class Questions:
    """Questions about single clusters; each is answered by a value, whatever is in the cluster's folder."""

    fleet: Path
    """The fleet's folder."""
    commands: frozenset[str]
    """Those that kubeconfigs may run."""
    ask: Ask
    environ: Mapping[str, str]
    """May name kubectl's kubeconfig."""
    clock: Clock
    """By which the age of a rehearsal is told."""
    fetch: Fetch = at_home
    requests: Callable[[Path], Answered] = requests_answered
    """Asks the cluster that a kubeconfig leads to for the requests that it has answered."""
    at_work: Callable[[Path, Path], str] = at_work
    """Asks the cluster that a kubeconfig leads to, and its folder, whether a process may be changing it."""
    gates: AskGates = field(default_factory=lambda: SoakGates().ask)
    """Asks the gates of a cluster folder, as `SoakGates.ask`."""
    restart: RestartPod = restart_pod
    """Restarts a pod of the cluster that a kubeconfig leads to."""

    def before(self, cluster: FleetCluster, digest: str, goal: Goal) -> Found:
        """Why a cluster must not be begun; `digest` is of what was approved."""
        return self._found(lambda: self._identified(cluster, self._as_approved(cluster, digest), digest, goal))

    def before_resume(self, cluster: FleetCluster, digest: str, goal: Goal) -> Found:
        """Why an interrupted run must not go on. It may restore an API that doesn't answer; its name is known, so that
        no earlier run is asked for; its rehearsal was asked for before it began.
        """
        found = self._found(lambda: self._identified(cluster, self._as_approved(cluster, digest), digest, None))
        return Found(kubeconfig=found.kubeconfig) if found.problem in ("unreachable", "journals") else found

    def in_soak(self, cluster: FleetCluster, state: ClusterState, target: KubernetesVersion, stage: Stage) -> Found:
        """Why a cluster isn't as the soak of its stage should leave it; its gates are asked apart from that."""
        return self._found(lambda: self._at_target(cluster, state, target, stage.soak_requests))

    def gates_of_soak(
        self, cluster: FleetCluster, state: ClusterState, stage: Stage, about: Callable[[GateAnswer], object]
    ) -> Found:
        """What the gates of its soak say: a question of its own, so that neither its API nor its Prometheus takes the
        other's time. `about` is as for `SoakGates.ask`.
        """
        return Found(gate=self._gate(cluster, state, stage.soak_gates, about))

    def restart_in_soak(self, cluster: FleetCluster, state: ClusterState, *, may_begin: bool) -> Found:
        """The next step of the restart of a pod; unless it `may_begin`, only whether it is over."""
        return self._found(lambda: self._restarted(cluster, state, may_begin=may_begin))

    def _restarted(self, cluster: FleetCluster, state: ClusterState, *, may_begin: bool) -> Found:
        used = self._kubeconfig(cluster, Inputs.parse(state.digest))
        with private_kubeconfig(used) as kubeconfig:
            restart = self.restart(kubeconfig, cluster, state.chosen, may_begin=may_begin)
        return Found(reason=restart if isinstance(restart, str) else "", restart=restart)

    def _gate(
        self,
        cluster: FleetCluster,
        state: ClusterState,
        names: Sequence[str],
        about: Callable[[GateAnswer], object],
    ) -> GateAnswer:
        assert state.since is not None, "its run has ended"
        seconds, asked = (self.clock.now() - state.since).total_seconds(), GateAnswer(unknown=True)

        def note(now: GateAnswer) -> None:
            nonlocal asked
            asked = now
            about(now)

        note(asked)
        with KNOWN.apart():
            if moved := self.moved(cluster, state.digest):
                return asked.unasked(moved)
            try:
                answer = self.gates(cluster.folder, Inputs.parse(state.digest).files, names, seconds, note)
            except Exception as error:  # noqa: BLE001 - as in `_answered`
                answer = asked.unasked(f"{type(error).__name__}: {error}")
            return replace(answer, reason=KNOWN.mask(answer.reason))

    def idle(self, cluster: FleetCluster, digest: str) -> bool:
        """Whether no process is changing the inventory's cluster, so that none of its runs is in progress."""
        return not self._found(lambda: self._idle(cluster, self._kubeconfig(cluster, Inputs.parse(digest)))).reason

    def moved(self, cluster: FleetCluster, digest: str) -> str:
        """Why nothing may be read from a cluster folder: a link now leads to another one. "": it is where it was."""
        now = os.path.realpath(cluster.folder)
        if folder_place(self.fleet, Path(now)) == Inputs.parse(digest).place:
            return ""
        return f"{cluster.folder} is now a link to a folder other than the approved one: {now}"

    def credentials(self, cluster: FleetCluster, digest: str) -> UsedKubeconfig | None:
        """Its kubeconfig as it is now; None where it can't be used, or isn't as it was approved."""
        return self._found(lambda: Found(kubeconfig=self._kubeconfig(cluster, Inputs.parse(digest)))).kubeconfig

    def _found(self, question: Callable[[], Found]) -> Found:
        with KNOWN.apart():  # a team's credentials are masked in what is said of its cluster, and nowhere else
            found = self._answered(question)
            return replace(found, reason=KNOWN.mask(found.reason))

    def _answered(self, question: Callable[[], Found]) -> Found:
        try:
            return question()
        except _Wrong as wrong:
            return wrong.found
        except UpgraderError as error:
            return Found("identity", error.message)
        except Exception as error:  # noqa: BLE001 - what surprises, in one cluster's folder, ends nothing for all others
            return Found("identity", f"it can't be examined: {type(error).__name__}: {error}")

    def _as_approved(self, cluster: FleetCluster, digest: str) -> UsedKubeconfig:
        approved = Inputs.parse(digest)
        if moved := self.moved(cluster, digest):
            raise _Wrong("changed", moved)
        try:
            changed = folder_digest(cluster.folder) != approved.files
        except UsageError as error:
            raise _Wrong("changed", f"it is unknown whether its folder has changed: {error.message}") from error
        if changed:
            raise self._changed("its folder has changed", cluster)
        return self._kubeconfig(cluster, approved)

    def _kubeconfig(self, cluster: FleetCluster, approved: Inputs) -> UsedKubeconfig:
        folder = Path(os.path.realpath(cluster.folder))  # once: it may become a link to another one at any moment
        if folder_place(self.fleet, folder) != approved.place:
            raise _Wrong("changed", self.moved(cluster, str(approved)))
        try:
            used = kubeconfig_of(folder, self.commands, self.environ)
        except UpgraderError as error:
            reason = f"it is unknown which cluster its kubeconfig points to: {error.message}"
            raise _Wrong("identity", f"{reason} {error.remedy}".strip()) from error
        if used.pinned != approved.kubeconfig:
            raise self._changed("the server, CA, command or a file in its kubeconfig has changed", cluster)
        return used

    def _changed(self, what: str, cluster: FleetCluster) -> _Wrong:
        """With the digest of now, by which it can be approved once it was read."""
        try:
            inputs = inputs_of(self.fleet, cluster.folder, self.commands, self.environ)
            how = f"upgrader fleet approve --changes {cluster.name} --digest {inputs.shown} --reason TEXT"
        except UpgraderError as error:
            how = f"it can't be approved yet, {error.message} {error.remedy}".strip()
        return _Wrong("changed", f"{what} since it was approved: {how}")

    def _identified(self, cluster: FleetCluster, used: UsedKubeconfig, digest: str, goal: Goal | None) -> Found:
        """Whether it is the inventory's, and, with a `goal`, may be begun: none of its upgrades is open, and it was
        rehearsed if its folder demands that; only one that runs the target can be finalized.
        """
        try:
            answer = self._answer(used)
        except ApiError as error:
            return Found("unreachable", error.message, used)
        except UpgraderError as error:
            return Found("identity", f"it is unknown which cluster its kubeconfig points to: {error.message}")
        if other := other_cluster(answer, cluster):
            return Found("identity", other)
        # Before it begins: a folder that knows none of them couldn't tell its run from an earlier one.
        unread = self._unread(cluster, used)
        if unread.place:
            return Found("unreachable", f"the journals of its earlier runs can't be read: {unread.place}", used)
        if unread.runs:
            return Found("journals", _damaged(unread), used)
        if goal and (open_one := open_run(cluster.folder, lambda: self._idle(cluster, used).reason)):
            what = f"it has a run that has not ended, and that the campaign did not start: {open_one}"
            run = newest_of_kind(cluster.folder / "runs")
            unended = run.state if run is not None and open_one == f"run {run.name}" else None
            return Found("unended", f"{what}: {how_to_end(cluster.folder)}", unended=unended)
        files, now = Inputs.parse(digest).files, self.clock.now()
        if goal and goal.finalizes and answer.version != goal.target:
            return Found(
                "identity", f"it runs {answer.version}; only a cluster that runs {goal.target} can be finalized"
            )
        if goal and (why := unrehearsed(cluster.folder, files, answer, goal.target, now)):
            return Found("rehearsal", why)
        return Found(kubeconfig=used)

    def _idle(self, cluster: FleetCluster, used: UsedKubeconfig) -> Found:
        """Its reason: why a process may be changing it."""
        with private_kubeconfig(used) as kubeconfig:
            other = other_cluster(self.ask(kubeconfig), cluster)
            return Found("unended", other or self.at_work(kubeconfig, cluster.folder))

    def _at_target(self, cluster: FleetCluster, state: ClusterState, target: KubernetesVersion, requests: int) -> Found:
        used = self._kubeconfig(cluster, Inputs.parse(state.digest))
        answer = self._answer(used)
        if answer.uid != cluster.uid or answer.version != target:
            said = f"it answers with {answer.version} and the UID {answer.uid}; expected {target} and {cluster.uid}"
            return Found("identity", said)
        return self._used(used, state, requests) if requests else Found()

    def _used(self, used: UsedKubeconfig, state: ClusterState, requests: int) -> Found:
        """Whether an API server has answered so many requests since the cluster's run. One that was not asked then, and
        is older, counts from now on.
        """
        assert state.since is not None, "its run has ended"
        with private_kubeconfig(used) as kubeconfig:
            now = self.requests(kubeconfig)
        before, news = state.counted.get(now.server), None
        if before is None:
            news = replace(now, requests=0) if now.started_after(state.since) else now
            before = news.requests
        if now.requests - before >= requests:
            return Found(counted=news)
        reason = f"fewer than {requests} requests are known to have been answered since its run ended"
        return Found("identity", reason, counted=news)

    def _unread(self, cluster: FleetCluster, used: UsedKubeconfig) -> Unread:
        with private_kubeconfig(used) as kubeconfig:
            return self.fetch(cluster.folder, kubeconfig)

    def _answer(self, used: UsedKubeconfig) -> Answer:
        with private_kubeconfig(used) as kubeconfig:
            return self.ask(kubeconfig)


def _damaged(unread: Unread) -> str:
    """That it answers, and keeps journals that say nothing."""
    secrets = " ".join(map(secret_name, unread.runs))
    return (
        f"the outcome of its earlier runs {', '.join(unread.runs)} is unknown: {unread.since('')}. If you know that "
        f"none of these upgrades is incomplete, remove their journals: kubectl -n kube-system delete secret {secrets}"
    )
