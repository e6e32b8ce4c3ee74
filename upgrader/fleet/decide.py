"""What a campaign does next: `decide(fleet, state, now)` is pure, and everything else carries it out.

- A stage begins when every stage before it is complete, has soaked, and what it waits for is approved. A stage is
  complete when each of its clusters has succeeded, was skipped, or has failed within the stage's limits, and at least
  one has succeeded by a run of this campaign.
- Failures are counted by outcome. One more than a limit allows, of one cause or of one outcome, stops all starts. So
  does a gate of a soak that hasn't passed by its deadline, until a person has retried or skipped its cluster.
- A run without an end holds its place among those that may run at once, and its domain, also if its cluster is left
  out since: until its end is known.
- A clock that is behind the journal's begins nothing.
- A run that was interrupted goes on without a window, a pause or a limit: the cluster is neither at the old version nor
  at the new one, and keeps its place among those that may run at once. Another upgrader than the campaign's doesn't
  resume it.
- A cluster in which no pod can be chosen for a restart keeps no other waiting for its own, and calls for a person.
- What isn't known counts as not passed: an API that doesn't answer neither begins a run nor ends a soak; nor does a
  gate that can't be asked, or wasn't.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil

from upgrader.fleet.model import Fleet, FleetCluster, Stage
from upgrader.fleet.state import CampaignState, ClusterState, clocks_disagree
from upgrader.fleet.windows import Opening, next_opening
from upgrader.model.first_few import first_few

__all__ = [
    "ANSWER_SECONDS",
    "RESTART_SECONDS",
    "RETRY_SECONDS",
    "Decision",
    "Held",
    "Skip",
    "Start",
    "Wait",
    "decide",
    "failed_gate",
    "in_progress",
    "needed_seconds",
    "overdrawn",
]

RETRY_SECONDS = 60.0
"""Before the first retry of an interrupted run; twice as long before each further one."""
RESTART_SECONDS = 600.0
"""How much of a window the restart of a pod needs."""
ANSWER_SECONDS = 3600.0
"""How long clusters are asked again at the end of a soak, or whether a run is in progress, before a person has to look;
and after a run, for the requests that all of its API servers have answered by then.
"""


@dataclass(frozen=True)
class Held:
    """Why a coordinator begins nothing, whatever the journal says; "": it may."""

    starts: str = ""
    """Such as a file of the fleet that has changed: runs that were interrupted go on."""
    everything: str = ""
    """It isn't the upgrader that the campaign was begun with."""


@dataclass(frozen=True)
class Start:
    """A cluster whose run begins, or is resumed."""

    cluster: str
    resume: bool = False
    by: datetime | None = None
    """When its window, or the time before an exclusion, has no more room for it: a Job may have to wait for a node, or
    for others in its queue. None: nothing limits it.
    """


@dataclass(frozen=True)
class Skip:
    """A cluster that is left out from now on."""

    cluster: str
    reason: str


@dataclass(frozen=True)
class Wait:
    """What a cluster or a stage waits for."""

    reason: str
    until: datetime | None = None
    """None: until a run ends that is in progress, or, with `person`, until a person has acted."""
    person: bool = False
    """Whether it waits for a person: without one, nothing changes."""
    stated: bool = field(default=False, compare=False)
    """Whether `reason` says how things are, and not what is to come; for one reason always the same."""
    gate: str | None = field(default=None, compare=False)
    """Of the time of a soak: the gate that doesn't pass, and why, which `reason` also says; "": all do. None: it isn't
    one.
    """

    def said(self, waits: str) -> str:
        """`waits for its window`, `waits: paused by ann`."""
        return f"{waits}{':' if self.stated else ' for'} {self.reason}"

    @property
    def timed(self) -> bool:
        """Whether it ends by itself, at a time that is known."""
        return self.until is not None and not self.person


@dataclass(frozen=True)
class Decision:
    """What is to be done now, and what everything else waits for."""

    starts: tuple[Start, ...] = ()
    checks: tuple[str, ...] = ()
    """Clusters to ask again: their API didn't answer, or they aren't as they should be."""
    soaks: tuple[str, ...] = ()
    """Clusters to ask whether they are as a soak should leave them."""
    counts: tuple[str, ...] = ()
    """Clusters to ask how many requests they have answered before their soak."""
    gates: tuple[str, ...] = ()
    """Clusters to ask for the gates of their soak."""
    restarts: tuple[str, ...] = ()
    """Clusters in which a pod is restarted for their soak."""
    evictions: tuple[str, ...] = ()
    """Those of them in which one may be chosen, and evicted, now: the others were asked for that in a window that has
    closed.
    """
    unrestartable: dict[str, str] = field(default_factory=dict)
    """By the cluster's name: why no pod of it can ever be restarted for its soak."""
    skips: tuple[Skip, ...] = ()
    waits: dict[str, Wait] = field(default_factory=dict)
    """By the cluster's name."""
    stages: dict[str, Wait] = field(default_factory=dict)
    """By the stage's name, for stages that aren't done."""
    stop: str = ""
    """Why no cluster may begin at all; "": nothing forbids it."""
    done: bool = False
    """Whether every stage is complete and has soaked."""


def decide(fleet: Fleet, state: CampaignState, now: datetime, held: Held = Held()) -> Decision:
    """The next actions of a campaign whose journal says `state`, at `now` (UTC)."""
    return _Deciding(fleet, state, now, held).decide()


def in_progress(state: CampaignState, waits: Mapping[str, Wait]) -> bool:
    """Whether a run is in progress that doesn't wait for a person, as one does of which nothing is known."""
    running = (each.name for each in state.clusters.values() if each.phase == "running")
    return any(name not in waits or not waits[name].person for name in running)


def needed_seconds(fleet: Fleet, state: CampaignState) -> float:
    """How long a run may take that is rolled back at its end: twice the 95th percentile of the campaign's runs, but no
    less than what was expected. Those that had nothing to change, as their clusters were at the target already, and
    those that were rolled back at their first step, say nothing of a complete one.
    """
    seconds = sorted(state.seconds)
    measured = seconds[ceil(0.95 * len(seconds)) - 1] if seconds else 0.0
    return 2 * max(measured, fleet.expected_seconds)


def overdrawn(fleet: Fleet, state: CampaignState) -> str:
    """Which limit of failures is exceeded, and by which clusters; "" where none is."""
    causes = Counter(each.cause for each in state.clusters.values() if each.failed and each.cause)
    for stage in fleet.stages:
        limits, members = stage.max_failures, fleet.members[stage.name]
        for key, phase, limit in (
            ("blocked", "blocked", limits.blocked),
            ("rolledBack", "rolled-back", limits.rolled_back),
            ("broken", "broken", limits.broken),
            ("interrupted", "interrupted", limits.interrupted),
        ):
            failed = [each.name for each in members if _failed(state, each) and _of(state, each).phase == phase]
            most = limit.down(len(members))
            if len(failed) > most:
                return f"stage {stage.name}: {phase}: {first_few(failed)}; maxFailures.{key} is {limit}" + (
                    f", which is {most}" if limit.percent else ""
                )
        hit = {_of(state, each).cause for each in members if _failed(state, each)}
        for cause, count in causes.most_common():
            if count > limits.same_cause and cause in hit:
                same = [each.name for each in state.clusters.values() if each.failed and each.cause == cause]
                return f"{first_few(same)} failed for the same cause: {cause}; maxFailures.sameCause is " + str(
                    limits.same_cause
                )
    return ""


def failed_gate(fleet: Fleet, state: CampaignState) -> tuple[str, str]:
    """The first cluster with a gate of its soak that hasn't passed by its deadline, and what is said of that; twice ""
    where there is none.
    """
    for each in (_of(state, cluster) for cluster in fleet.clusters):
        if each.phase == "succeeded" and each.gate_failed:
            gate = f"gate {each.gate} of {each.name} has not passed by its deadline"
            what = gate if each.gate else f"it has been unknown for too long whether the gates of {each.name} pass"
            return each.name, (
                f"stage {fleet.stage_of[each.name].name}: {what}: {each.gate_reason}; to check "
                f"{'it' if each.gate else 'them'} again: upgrader fleet retry {each.name}; or upgrader fleet skip "
                f"{each.name} --reason TEXT"
            )
    return "", ""


def _of(state: CampaignState, cluster: FleetCluster) -> ClusterState:
    return state.clusters.get(cluster.name) or ClusterState(cluster.name)


def _failed(state: CampaignState, cluster: FleetCluster) -> bool:
    return _of(state, cluster).failed


def _shut(each: ClusterState) -> str:
    gates = f"gate {each.gate} doesn't pass" if each.gate else "its gates are unknown"
    return f"{gates}: {each.gate_reason}"


class _Deciding:
    """One decision, as it is made."""

    def __init__(self, fleet: Fleet, state: CampaignState, now: datetime, held: Held) -> None:
        self.fleet, self.state, self.now, self.held = fleet, state, now, held
        self.needed = needed_seconds(fleet, state)
        self.starts: list[Start] = []
        self.checks: list[str] = []
        self.soaks: list[str] = []
        self.restarts: list[str] = []
        self.evictions: list[str] = []
        self.unrestartable: dict[str, str] = {}
        self.skips: list[Skip] = []
        self.waits: dict[str, Wait] = {}
        self.stages: dict[str, Wait] = {}
        self.stop = held.everything or held.starts or clocks_disagree(state, now) or self._stop()
        active = [each for each in fleet.clusters if self._of(each).active]
        self.domains = {fleet.domain_of(each.name): each.name for each in active}
        self.running = Counter(fleet.stage_of[each.name].name for each in active)

    def decide(self) -> Decision:
        """All of it."""
        self._resume()
        done = True
        for stage in self.fleet.stages:
            if not done:
                approval = stage.approval and stage.name not in self.state.approved
                self.stages[stage.name] = Wait("the stages before it" + (", then an approval" if approval else ""))
                continue
            wait = self._incomplete(stage) or self._soaking(stage)
            if wait is not None:
                self.stages[stage.name] = wait
                done = False
        return Decision(
            tuple(self.starts),
            tuple(self.checks),
            tuple(self.soaks),
            tuple(each.name for each in self.fleet.clusters if self._uncounted(self._of(each))),
            tuple(each.name for each in self.fleet.clusters if self._gated(self._of(each))),
            tuple(self.restarts),
            tuple(self.evictions),
            self.unrestartable,
            tuple(self.skips),
            self.waits,
            self.stages,
            self.stop,
            done,
        )

    def _of(self, cluster: FleetCluster) -> ClusterState:
        return _of(self.state, cluster)

    def _stop(self) -> str:
        if paused := self.state.paused:
            return f"paused by {paused.by}: {paused.reason}" if paused.reason else f"paused by {paused.by}"
        return overdrawn(self.fleet, self.state) or failed_gate(self.fleet, self.state)[1]

    def _resume(self) -> None:
        """Runs that were interrupted go on, in whatever stage they are."""
        for cluster in self.fleet.clusters:
            each = self._of(cluster)
            if each.phase == "running" and each.problem in ("unknown", "silent"):
                self.waits[each.name] = self._lost(each)
            elif each.phase == "skipped" and each.unended:
                self.waits[each.name] = Wait(
                    f"the end of run {each.run}, which counts for maxConcurrency until then: upgrader -C "
                    f"{cluster.folder} {self.fleet.goal.to_end}; or upgrader fleet retry {each.name}",
                    person=True,
                )
            elif each.active and each.retried and self._may_resume(each):
                self._retry(each, resume=True)

    def _lost(self, each: ClusterState) -> Wait:
        """Of a run of which nothing is known, or nothing is heard: a management cluster that restarts needs no person,
        and one that is only slow has its time first.
        """
        assert each.since is not None and each.problem_since is not None, "it was begun, and has a problem"
        if each.problem == "silent":
            until = each.since + timedelta(seconds=self.needed)
        else:
            until = each.problem_since + timedelta(seconds=ANSWER_SECONDS)
        timed = self.now < until
        stated = each.problem != "silent"  # of which the reason is "its run to continue: …"
        return Wait(each.problem_reason, until if timed else None, person=not timed, stated=stated)

    def _may_resume(self, each: ClusterState) -> bool:
        """An API that doesn't answer keeps no run from going on, as that may restore it; another cluster's does, and so
        does a folder that isn't as it was approved: what is in it would be run.
        """
        if self.held.everything:
            self.waits[each.name] = Wait(self.held.everything, person=True, stated=True)
            return False
        if each.problem not in ("identity", "changed"):
            return True
        self.checks.append(each.name)
        self.waits[each.name] = Wait(each.problem_reason, person=True, stated=True)
        return False

    def _retry(self, cluster: ClusterState, *, resume: bool) -> bool:
        """Whether it may begin again now; otherwise it waits."""
        assert cluster.since is not None, "it was begun"
        due = cluster.since + timedelta(seconds=RETRY_SECONDS * 2 ** max(0, cluster.interruptions - 1))
        if self.now < due:
            self.waits[cluster.name] = Wait(f"retried after an interruption: {cluster.reason}", due, stated=True)
            return False
        if resume:
            self.starts.append(Start(cluster.name, resume=True))
        return True

    def _incomplete(self, stage: Stage) -> Wait | None:
        """Begin what may begin; what the stage waits for, None where it is complete."""
        members = self.fleet.members[stage.name]
        left = [each for each in members if self._unfinished(self._of(each))]
        if stage.approval and stage.name not in self.state.approved:
            wait = Wait(f"an approval: upgrader fleet approve {stage.name} --reason TEXT", person=True)
            self.waits |= {each.name: wait for each in left if each.name not in self.waits}
            return wait
        for cluster in left:
            each = self._of(cluster)
            if each.phase == "waiting" or (each.retried and not each.active):
                self._consider(stage, cluster, each)
        if left:
            return self._for_the_rest(left)
        if self.stop and not self._over(stage):
            return Wait(self.stop, person=True, stated=True)
        if not any(self._of(each).phase == "succeeded" for each in members):
            return Wait("none of its clusters has succeeded: upgrader fleet retry CLUSTER", person=True, stated=True)
        return None

    def _over(self, stage: Stage) -> bool:
        """Whether a complete stage has soaked, and a later one has started: a stop holds up that one."""
        later = self.fleet.stages[self.fleet.stages.index(stage) + 1 :]
        if not any(self._of(each).attempt for one in later for each in self.fleet.members[one.name]):
            return False
        members = [self._of(each) for each in self.fleet.members[stage.name]]
        until = self._soak_end(stage)
        return not stage.soaks or all(self._soaked(stage, each, until) for each in members if each.phase == "succeeded")

    def _unfinished(self, cluster: ClusterState) -> bool:
        return cluster.phase in ("waiting", "running") or cluster.retried

    def _for_the_rest(self, left: Sequence[FleetCluster]) -> Wait:
        """The wait of a stage with clusters that aren't done: for a person only if nothing goes on without one."""
        waits = [self.waits.get(each.name) for each in left]
        names = first_few([each.name for each in left])
        if not self._goes_on():
            stuck = [each.name for each in self.fleet.clusters if self._needs_a_person(each)]
            return Wait(f"an operator: {first_few(stuck)}", person=True)
        times = [wait.until for wait in waits if wait is not None and wait.until is not None]
        going = any(wait is None or (wait.until is None and not wait.person) for wait in waits)
        return Wait(f"its clusters: {names}", None if going else min(times, default=None))

    def _goes_on(self) -> bool:
        """Whether a run is in progress, or about to be, or something has a time."""
        timed = any(wait.timed for wait in self.waits.values())
        return bool(in_progress(self.state, self.waits) or timed or self.starts or self.skips)

    def _needs_a_person(self, cluster: FleetCluster) -> bool:
        """Whether it waits for one, or keeps its place until one comes."""
        wait, each = self.waits.get(cluster.name), self._of(cluster)
        return (wait is not None and wait.person) or (each.active and each.failed)

    def _consider(self, stage: Stage, cluster: FleetCluster, each: ClusterState) -> None:
        if each.problem and not self._checked_again(stage, each):
            return
        if each.phase == "interrupted" and not self._retry(each, resume=False):
            return
        opening = self._opening(cluster, self.now, self.needed)
        wait = self._hindrance(stage, cluster, opening)
        if wait is not None:
            self.waits[each.name] = wait
            return
        ends = opening.ends if opening else None
        self.starts.append(Start(each.name, by=ends and ends - timedelta(seconds=self.needed)))
        self.running[stage.name] += 1
        self.domains[self.fleet.domain_of(each.name)] = each.name

    def _checked_again(self, stage: Stage, each: ClusterState) -> bool:
        """Never begin a cluster with a problem: ask it again, and wait or skip it. Returns False."""
        self.checks.append(each.name)
        if each.problem != "unreachable":
            self.waits[each.name] = Wait(each.problem_reason, person=True, stated=True)
            return False
        assert each.problem_since is not None, "it has a problem"
        rule = stage.on_unreachable
        until = each.problem_since + timedelta(seconds=rule.wait_seconds)
        if self.now < until:
            self.waits[each.name] = Wait(f"its API to answer: {each.problem_reason}", until)
        elif rule.then == "skip":
            self.skips.append(Skip(each.name, f"unreachable since {each.problem_since:%Y-%m-%d %H:%M}Z"))
        else:
            reason = (
                f"unreachable since {each.problem_since:%Y-%m-%d %H:%M}Z: upgrader fleet retry {each.name}, or "
                f"upgrader fleet skip {each.name} --reason TEXT"
            )
            self.waits[each.name] = Wait(reason, person=True, stated=True)
        return False

    def _hindrance(self, stage: Stage, cluster: FleetCluster, opening: Opening | None) -> Wait | None:
        """What keeps a cluster from beginning now."""
        if self.stop:
            return Wait(self.stop, person=True, stated=True)
        if opening is None:
            needs = f"a run and its rollback, which take {self.needed / 60:.0f} min"
            return Wait(
                f"its windows and exclusions leave no time for {needs}: change them, and start a new campaign: "
                "upgrader fleet run --new",
                person=True,
                stated=True,
            )
        if opening.begins > self.now:
            return Wait("its window", opening.begins)
        domain = self.fleet.domain_of(cluster.name)
        for other, name in self.domains.items():
            if other != domain:
                each = self.state.clusters[name]
                stuck = each.unended and (each.phase == "skipped" or each.failed)
                return Wait(
                    f"domain {other}: "
                    + (f"the run of {name} has not ended" if stuck else f"{name} is being upgraded"),
                    stated=True,
                )
        most = stage.max_concurrency.at_once(len(self.fleet.members[stage.name]))
        if self.running[stage.name] >= most:
            return Wait(f"its turn: {most} at a time (maxConcurrency {stage.max_concurrency})")
        return None

    def _uncounted(self, each: ClusterState) -> bool:
        """Whether it soaks, and isn't known to have been asked through each of its API servers. Behind a load balancer,
        another one may answer the next time, or always the same one.
        """
        if each.phase != "succeeded" or each.soaked or not self.fleet.stage_of[each.name].soak_requests:
            return False
        assert each.since is not None, "it has ended"
        asked_on = self.now < each.since + timedelta(seconds=ANSWER_SECONDS)
        return not each.counted or (asked_on and len(each.counted) < each.servers)

    def _gated(self, each: ClusterState) -> bool:
        """Whether the gates of its soak are asked: from its run's end on, until it has soaked."""
        if each.phase != "succeeded" or not self.fleet.stage_of[each.name].soak_gates:
            return False
        return not each.gate_failed and not (each.soaked and each.gate == "")

    def _soaking(self, stage: Stage) -> Wait | None:
        """What a complete stage still waits for before the next one begins."""
        if not stage.soaks:
            return None
        members = [self._of(each) for each in self.fleet.members[stage.name]]
        until = self._soak_end(stage)
        opens = self._restart(stage) if stage.soak_restart else None
        lost = [each for each in members if stage.soak_restart and self._unchosen(each)]
        for each in lost:
            why = self.unrestartable.get(each.name) or each.soak_reason
            leave_out = f"to leave it out: upgrader fleet skip {each.name} --reason TEXT"
            self.waits[each.name] = Wait(f"an operator: {why}; {leave_out}", person=True)
        shut = (each for each in members if each.phase == "succeeded" and each.gate_shut)
        gate = next((f"{each.name}: {_shut(each)}" for each in shut), "")
        if self.now < until:
            return Wait(f"soak, and {gate}" if gate else "soak", until, gate=gate)
        asked = [each for each in members if each.phase == "succeeded" and not self._soaked(stage, each, until)]
        if not asked:
            return None
        if opens is not None:
            return opens
        self.soaks += [each.name for each in asked if each.pod_restarted or not stage.soak_restart]
        said = gate or next((f"{each.name}: {each.soak_reason}" for each in (*lost, *asked) if each.soak_reason), "")
        reason = f"the end of its soak: {len(asked)} of its clusters must report the target version"
        reason += said and f": {said}"
        limit = max(self._restart_times(stage, until)) + timedelta(seconds=ANSWER_SECONDS)
        if self.now < limit and len(lost) < len(asked):
            return Wait(reason, limit)
        return Wait(f"{reason}; to skip a lost cluster: upgrader fleet skip CLUSTER --reason TEXT", person=True)

    def _soak_end(self, stage: Stage) -> datetime:
        """When the time of a complete stage's soak is over, after its last run."""
        members = [self._of(each) for each in self.fleet.members[stage.name]]
        ended = [each.since for each in members if each.phase != "skipped" and each.since is not None]
        return max(ended, default=self.now) + timedelta(seconds=stage.soak_seconds)

    def _soaked(self, stage: Stage, each: ClusterState, until: datetime) -> bool:
        passed = each.soaked is not None and each.soaked >= until
        gates = not stage.soak_gates or each.gate == ""
        return passed and gates and (each.pod_restarted or not stage.soak_restart)

    def _restart_times(self, stage: Stage, until: datetime) -> Iterator[datetime]:
        """When restarts could begin since the end of the soak, and when there was progress in one: a window may open
        long after that end, and as many clusters as are restarted at once are waited for by the others.
        """
        yield until
        for cluster in self.fleet.members[stage.name] if stage.soak_restart else ():
            each = self._of(cluster)
            if each.restart_since is not None:
                yield each.restart_since
            elif each.soak_since is not None:
                yield each.soak_since
            elif each.phase == "succeeded" and (opening := self._opening(cluster, until)):
                yield min(opening.begins, self.now)

    def _opening(self, cluster: FleetCluster, now: datetime, seconds: float = RESTART_SECONDS) -> Opening | None:
        return next_opening(cluster.labels, self.fleet.windows, self.fleet.exclusions, now, seconds)

    def _restart(self, stage: Stage) -> Wait | None:
        """Restart a pod where that may begin now, or has; what it waits for, if it may nowhere yet."""
        members = self.fleet.members[stage.name]
        left = [each for each in members if self._of(each).phase == "succeeded" and not self._of(each).pod_restarted]
        left.sort(key=lambda each: self._turn(self._of(each)))
        most, placed, later = stage.max_concurrency.at_once(len(members)), list[str](), list[datetime]()
        for cluster in left:
            each = self._of(cluster)
            begun = each.chosen is not None
            opening = self._opening(cluster, self.now, 0.0 if begun else RESTART_SECONDS)
            is_open = opening is not None and opening.begins <= self.now
            if not begun and not is_open:
                later += [opening.begins] if opening else []
                if opening is None:
                    self.unrestartable[each.name] = (
                        "its windows and exclusions leave no time for the restart of a pod, which takes "
                        f"{RESTART_SECONDS / 60:.0f} min"
                    )
                continue
            domains = {self.fleet.domain_of(name) for name in placed} | set(self.domains)
            place = len(placed) < most and domains <= {self.fleet.domain_of(cluster.name)}
            if place or self._unchosen(each):
                placed += [cluster.name] if not self._unchosen(each) else []
                self.restarts.append(cluster.name)
                self.evictions += [cluster.name] if is_open else []
        if not left or self.restarts:
            return None
        return Wait("the restart of a pod, in its window", min(later)) if later else None

    def _turn(self, each: ClusterState) -> tuple[int, datetime]:
        """Whose restart comes first: one that has begun, and then one in which it was not tried, so that a cluster in
        which no pod can be chosen keeps no other waiting.
        """
        if each.chosen is not None:
            return 0, each.restart_since or self.now
        return (2, each.soak_since) if each.soak_since else (1, self.now)

    def _unchosen(self, each: ClusterState) -> bool:
        """Whether no pod of it can be chosen, or none could for as long as a person isn't called. It is asked on, and
        holds no place: nothing has begun in it.
        """
        if each.phase != "succeeded" or each.chosen is not None or each.pod_restarted:
            return False
        late = each.soak_since and self.now >= each.soak_since + timedelta(seconds=ANSWER_SECONDS)
        return each.name in self.unrestartable or bool(late)
