"""Carries a campaign out: looks, decides, and writes to the journal what it does before it does it.

Killed anywhere, it goes on: what was begun is in the journal, and whether that still runs is known by its executor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from upgrader.app.resume_or_start import NONE_BEFORE
from upgrader.config.copied_kubeconfig import UsedKubeconfig
from upgrader.engine.history.past_runs import newest_name, newest_of_kind
from upgrader.engine.history.run_folders import run_folders
from upgrader.engine.journal.journal_file import JOURNAL, Journal
from upgrader.engine.journal.record import plain
from upgrader.errors import UpgraderError, UsageError
from upgrader.fleet.approved_copies import remove_copies
from upgrader.fleet.campaigns import INPUTS, KUBECONFIG, Campaign, CampaignReader
from upgrader.fleet.causes import cause_of
from upgrader.fleet.cluster_checks import Found, Questions
from upgrader.fleet.clusters import keep_kubeconfig
from upgrader.fleet.decide import Decision, Held, Skip, Start, decide, in_progress
from upgrader.fleet.events import (
    CampaignEnded,
    CampaignEvent,
    ChosenPod,
    ClusterChecked,
    ClusterEnded,
    ClusterSkipped,
    ClusterStarting,
    Pins,
    PodChosen,
    PodRestarted,
    Problem,
    RequestsCounted,
    SoakChecked,
    SoakGateChecked,
)
from upgrader.fleet.inputs import Inputs, pins_differ
from upgrader.fleet.model import Fleet
from upgrader.fleet.open_runs import built_on
from upgrader.fleet.outcomes import CommandEnd, Result, Sign, result_of
from upgrader.fleet.parallel_inquiry import Inquiry
from upgrader.fleet.soak_gates import GateAnswer
from upgrader.fleet.state import CampaignState, ClusterState, fold
from upgrader.ports import Clock

__all__ = ["IDLE_SECONDS", "LOOK_SECONDS", "SILENT_SECONDS", "Coordinator", "Executor", "Hear", "goes_on"]

LOOK_SECONDS, IDLE_SECONDS = 2.0, 15.0
"""Between two looks, while a run is in progress and while none is."""
SILENT_SECONDS = 3600.0
"""After this time without a line from a run in progress, it is named; longer than a step takes that doesn't hang."""
_ASK_AGAIN_SECONDS = 60.0
_TELL_SECONDS = 3600.0
"""A reason that changes all the time is written down at least so often."""
_STARTS_A_LOOK = 8
"""Runs that begin in one look, side by side, those first whose clusters were asked least recently: the others wait for
the next one, and so do ends and requests.
"""
_START_SECONDS = 300.0
"""After this time, a start that has not ended is named: it is a hundred requests to a management cluster, or a file
system that hangs.
"""
_FRESH_SECONDS = 10.0
"""How long a decision is carried out: windows close, and files change."""
Hear = Callable[[CampaignEvent, CampaignState, CampaignState], None]
"""Takes an event of the journal, with the campaign before and after it."""
_THE_SAME = "use the same files as then, or start another campaign: upgrader fleet run --new"


class Executor(Protocol):
    """Where runs are carried out. An attempt is known by its folder."""

    def prepare(self, attempt: Path, arguments: Sequence[str]) -> Callable[[], None]:
        """What begins a run with these arguments of `upgrader`, unless that attempt is running. All that has to be read
        of the cluster's folder, which may hang, is read here, and nothing begins before the call. Both raise
        UsageError.
        """
        ...

    def running(self, attempt: Path) -> bool:
        """Whether it is running. Raises UsageError if that can't be read."""
        ...

    def sign(self, attempt: Path) -> Sign:
        """The last sign of life of an attempt that is running. Raises UsageError if that can't be read."""
        ...

    def end(self, attempt: Path) -> CommandEnd | None:
        """How an attempt ended that isn't running; None if it couldn't say. Raises UsageError if it can't be read."""
        ...


@dataclass(frozen=True)
class _Attempt:
    """What the executor says of a cluster's attempt."""

    running: bool
    silent: str = ""
    """That it has written nothing for a long time."""


@dataclass(frozen=True)
class _Seen:
    """What was read in a cluster's folder."""

    moved: str = ""
    """Why nothing was read: a link leads to another folder."""
    newest: str = ""
    """The name of its newest run."""
    begin: Callable[[], None] | None = None
    """What begins its next run."""
    refused: str = ""
    """Why there is no such thing."""
    credentials: UsedKubeconfig | None = None
    result: Result | None = None
    """How a run ended; None: it has no end, or wasn't asked for."""
    problem: str = ""
    """Why it can't be read."""


@dataclass(frozen=True)
class _Begun:
    """How the start of a run has ended."""

    refused: str = ""
    """Why nothing was begun."""
    problem: str = ""
    """Why it isn't known whether anything was."""


class _About(NamedTuple):
    """What a cluster is asked: each question has the whole time of a look, so that none takes another's."""

    cluster: str
    gates: bool = False
    """Whether the gates of its soak are asked; else what leads to its API is."""


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
    questions: Questions
    pins: Callable[[], Pins]
    """What a run would be begun with now, as `own_pins`."""
    inquiry: Inquiry[_About, Found] = field(default_factory=Inquiry)
    """How clusters are asked."""
    reading: Inquiry[str, _Seen] = field(default_factory=Inquiry)
    """How the folders of clusters are read, which may be on a file system that hangs."""
    starting: Inquiry[str, _Begun] = field(default_factory=Inquiry)
    """How runs are begun: one that takes long delays no other."""
    _begun: dict[str, _Begun] = field(default_factory=dict)
    """How the starts of clusters' runs have ended, until a look takes that in."""
    _read: tuple[float, Pins] | None = None
    """What that said last, and when, on the monotonic clock."""
    _asked: dict[_About, float] = field(default_factory=dict)
    """When that was asked last, on the monotonic clock."""
    _gate_asked: dict[str, GateAnswer] = field(default_factory=dict)
    """Of each cluster's gates, the one that was asked last, in a thread that may not have its answer yet."""
    _prepared: dict[str, tuple[Sequence[str], _Seen]] = field(default_factory=dict)
    """What begins a cluster's next run, and its arguments: it may have taken longer than a look waits."""
    _last_signs: dict[Path, datetime] = field(default_factory=dict)
    """When an attempt is known to have written something last."""
    _reader: CampaignReader = field(init=False)
    """Of the journal, which only this coordinator writes."""
    _state: CampaignState = field(default_factory=CampaignState)
    """What was read of it."""
    _hear: Hear | None = None

    def __post_init__(self) -> None:
        self._reader = CampaignReader(self.campaign)

    def tell(self, hear: Hear) -> None:
        """Call this with each event of the journal, in its order and once, as it is read: from the first look on. It
        must not raise.
        """
        self._hear = hear

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
        state = self.journaled()
        if self.campaign.take_requests(self.journal, state) | self._collect(state):
            state = self.journaled()
        decision = self._decide(state)
        if self._act(decision, state):
            state = self.journaled()
            decision = self._decide(state)
        if decision.done and state.ended is None:
            self.journal.emit(CampaignEnded(self.campaign.name))
            state = self.journaled()
            decision = self._decide(state)
        return decision, state

    def journaled(self) -> CampaignState:
        """What the journal says. Raises UsageError unless that ends with what was written here last: what isn't read
        again would be done again.
        """
        events = self._reader.further()
        if self._reader.place != self.journal.end:
            raise UsageError(
                f"{self.campaign.folder / JOURNAL} is not as this coordinator wrote it: the file was truncated, "
                "replaced, or written to by another process. Nothing more is started; runs in progress continue",
                remedy="Restore the file from a copy, and find out what has changed it. Then: upgrader fleet run",
            )
        for time, event in events:
            before, self._state = self._state, fold([(time, event)], self._state)
            if self._hear:
                self._hear(event, before, self._state)
        return self._state

    def _decide(self, state: CampaignState) -> Decision:
        if state.ended is not None:
            return Decision(done=True)
        return decide(self.fleet, state, self.clock.now(), self._held(state, _ASK_AGAIN_SECONDS))

    def _held(self, state: CampaignState, fresh_seconds: float) -> Held:
        """Why nothing may begin; the program's files, of which there are many, were read at most so long ago."""
        now = self.clock.monotonic()
        if self._read is None or now - self._read[0] >= fresh_seconds:
            self._read = now, self.pins()
        other = pins_differ(state.pins, self._read[1])
        return Held(self.campaign.changed_files(self.folder), other and f"{other}; {_THE_SAME}")

    def _act(self, decision: Decision, state: CampaignState) -> bool:
        """Do what was decided; whether that was anything."""
        # One that could not go on, as its folder hangs, is decided again by each look, and must not keep its place.
        starts_by_turn = sorted(decision.starts, key=lambda start: self._asked.get(_About(start.cluster), 0.0))
        decision = replace(decision, starts=tuple(starts_by_turn[:_STARTS_A_LOOK]))
        soaks, counts, restarts = decision.soaks, (*decision.soaks, *decision.counts), decision.restarts
        decided, news = self.clock.monotonic(), False
        skips = {each.cluster: each for each in decision.skips}
        starts = {each.cluster: each for each in decision.starts}
        gates, ends, ready = dict[str, GateAnswer](), dict[str, Found](), dict[str, UsedKubeconfig]()
        for name, reason in decision.unrestartable.items():
            news |= self._soak(state.clusters[name], Found(reason=reason))
        for about, answer in self.inquiry.answers(self._asked_now(decision, state)):
            name = about.cluster
            cluster = state.clusters[name]
            self._asked[about] = self.clock.monotonic()
            if about.gates:
                gates[name] = (answer and answer.gate) or self._late_gate(name)
                news |= self._gate(cluster, gates[name])
                continue
            found = answer or Found("unreachable", f"it has not answered within {self.inquiry.seconds:.0f} s")
            if name not in soaks and not found.problem and self.reading.asks(name):
                found = Found("unreachable", self._unanswered)  # it is waited for no longer than for its API
            if name in skips:
                self._skip(skips[name], cluster, found)
            elif name in starts and not found.problem and found.kubeconfig is not None:
                ready[name] = found.kubeconfig
            elif name in restarts:
                news |= self._restarted(cluster, found)
            elif name in counts:
                news |= self._counted(cluster, found)
                if name in soaks:
                    ends[name] = found
            elif (lost := found.unended) and lost.campaign == self.campaign.name and lost.run != cluster.run:
                reason = "the campaign's journal doesn't have its start: it was restored from a backup"
                self._end(cluster, cluster.attempt, Result("interrupted", lost.run, reason=reason, open=True), 0.0)
                news = True
            else:
                news |= self._found(cluster, found.problem, found.reason)
        for name, found in ends.items():  # now that its gates have answered, too, or are late
            news |= self._soak(state.clusters[name], self._with_gates(name, found, gates.get(name)))
        self._start(ready, decision, decided, state)
        return bool(skips or starts or news)

    def _with_gates(self, name: str, found: Found, gates: GateAnswer | None) -> Found:
        """A soak doesn't end by what its gates have said at another time."""
        if found.reason or not self.fleet.stage_of[name].soak_gates or (gates and gates.passes):
            return found
        return Found(reason=f"its gate {gates.gate} doesn't pass" if gates and gates.gate else "its gates are unknown")

    def _asked_now(self, decision: Decision, state: CampaignState) -> Mapping[_About, Callable[[], Found]]:
        """The questions of this look: clusters about to begin first, then what was not asked for longest."""
        asked: dict[_About, Callable[[], Found]] = {}
        for start in decision.starts:
            asked[_About(start.cluster)] = self._question(state.clusters[start.cluster], resume=start.resume)
        for skip in decision.skips:
            asked[_About(skip.cluster)] = self._question(state.clusters[skip.cluster])
        soaks = (*decision.soaks, *decision.counts)
        names = (*decision.checks, *soaks, *decision.restarts)
        abouts = (*map(_About, names), *(_About(name, gates=True) for name in decision.gates))
        for about in sorted(abouts, key=lambda about: self._asked.get(about, 0.0)):
            if about in asked or not self._due(about):
                continue
            name = about.cluster
            each, cluster, stage = state.clusters[name], self.fleet.by_name[name], self.fleet.stage_of[name]
            gates = partial(
                self.questions.gates_of_soak, cluster, each, stage, partial(self._gate_asked.__setitem__, name)
            )
            if about.gates:
                asked[about] = gates
            elif name in decision.restarts:
                question, may_begin = self.questions.restart_in_soak, name in decision.evictions
                asked[about] = partial(question, cluster, each, may_begin=may_begin)
            elif name in soaks:
                if stage.soak_gates:  # at the same time, whenever they were asked last
                    asked[_About(name, gates=True)] = gates
                asked[about] = partial(self.questions.in_soak, cluster, each, self.fleet.target, stage)
            else:
                asked[about] = self._question(each, resume=each.active)
        return asked

    def _question(self, each: ClusterState, *, resume: bool = False) -> Callable[[], Found]:
        question = self.questions.before_resume if resume else self.questions.before
        return partial(question, self.fleet.by_name[each.name], each.digest, self.fleet.goal)

    def _late_gate(self, name: str) -> GateAnswer:
        """Of gates that were asked, and have not answered: the one that was asked last is the one without an answer."""
        asked, seconds = self._gate_asked.get(name) or GateAnswer(unknown=True), f"{self.inquiry.seconds:.0f} s"
        if asked.unknown:
            return asked.unasked(f"its cluster's folder was not read within {seconds}")
        return replace(
            asked, reason=f"it has not answered within {seconds}, the time limit for all gates of its cluster together"
        )

    def _holds(self, state: CampaignState, start: Start, fresh_seconds: float) -> bool:
        held = self._held(state, fresh_seconds)
        return bool(held.everything or (held.starts and not start.resume))

    def _collect(self, state: CampaignState) -> bool:
        """Write down which runs have ended."""
        attempts: dict[str, _Attempt] = {}
        questions: dict[str, Callable[[], _Seen]] = {}
        news = False
        for each in state.clusters.values():
            if each.phase == "running" and self.starting.asks(each.name):  # nothing is begun beside it, and none ended
                news |= self._start_hangs(each)
            elif each.phase == "running":
                if (begun := self._begun.pop(each.name, None)) and self._take_start(each, begun, resume=each.unended):
                    news = True
                    continue
                due = self._due(_About(each.name))
                if each.problem == "unknown" and not due:
                    continue
                try:
                    attempts[each.name] = self._attempt_of(each)
                except UsageError as error:
                    news |= self._unknown(each, error.message)
                else:
                    questions[each.name] = partial(_read, partial(self._see, each, attempts[each.name], renew=due))
            elif each.phase == "skipped" and each.unended and self._due(_About(each.name)):
                questions[each.name] = partial(_read, partial(self._see_ended, each))
        for name, seen in self.reading.answers(questions):
            each = state.clusters[name]
            if name in attempts:
                news |= self._take_in(each, attempts[name], seen or _Seen(problem=self._unanswered))
            elif seen and seen.result:
                self._end(each, each.attempt, seen.result, 0.0)
                news = True
        return news

    @property
    def _unanswered(self) -> str:
        return f"its folder has not answered within {self.reading.seconds:.0f} s"

    def _attempt_of(self, cluster: ClusterState) -> _Attempt:
        attempt = self.campaign.attempt(cluster.name, cluster.attempt)
        running = self.executor.running(attempt)
        return _Attempt(running, self._silent(cluster, attempt) if running else "")

    def _see(self, cluster: ClusterState, attempt: _Attempt, *, renew: bool) -> _Seen:
        """Of a run that was in progress: how it ended; else, to `renew` them, the credentials of now, as tokens end."""
        folder = self.fleet.by_name[cluster.name]
        if moved := self.questions.moved(folder, cluster.digest):
            return _Seen(moved)
        problem = ""
        if not attempt.running:
            try:
                end = self.executor.end(self.campaign.attempt(cluster.name, cluster.attempt))
            except UsageError as error:  # its cluster may say more to the credentials of now
                problem = error.message
            else:
                resumed = cluster.run if cluster.unended else ""
                return _Seen(result=self._result(cluster, end, before=cluster.before, resumed=resumed))
        return _Seen(credentials=self.questions.credentials(folder, cluster.digest) if renew else None, problem=problem)

    def _see_ended(self, cluster: ClusterState) -> _Seen:
        """Of the open run of a cluster which is left out: whether a person has ended it, or has gone on with a later
        run that works no more, after which it can be neither resumed nor rolled back.
        """
        folder = self.fleet.by_name[cluster.name]
        runs = folder.folder / "runs"
        newest = newest_of_kind(runs, self.fleet.goal.kind)
        if newest is None or newest.outcome == "unknown":
            return _Seen()
        if newest.outcome == "interrupted":
            later = built_on(newest)
            if later is None:
                return _Seen()
            # Its journal may lack the end for ever: a repeated `adopt` that has nothing left to do writes none.
            if later.outcome == "interrupted" and not self.questions.idle(folder, cluster.digest):
                return _Seen()
            reason = f"run {newest.name} was interrupted, and run {later.name} builds on it"
            return _Seen(result=Result("broken", newest.name, reason=reason))
        result = self._result(cluster, None, before=newest_name(runs), resumed=newest.name)
        return _Seen(result=None if result.open else result)  # open: between two minors

    def _take_in(self, cluster: ClusterState, attempt: _Attempt, seen: _Seen) -> bool:
        """Write down how a cluster's run ended, or that it isn't known; whether there is anything new."""
        if seen.credentials:  # whatever else has changed, the run keeps its own
            keep_kubeconfig(seen.credentials, self._kubeconfig(cluster.name))
        if why := seen.moved or seen.problem:
            return self._unknown(cluster, why)
        if attempt.running:
            if attempt.silent:
                return self._found(cluster, "silent", attempt.silent)
            return self._found(cluster, "", "") if cluster.problem in ("unknown", "silent") else False
        assert cluster.since is not None and seen.result is not None, "it was begun, and has ended"
        # A coordinator that was away for a night, or a queue, has not made the run any longer, and no other clock is
        # trusted beyond this one: windows must have room for the longest runs. Where the clocks of a Job's controller
        # and of its pod's node disagree, the time is unknown, and so it is the longest.
        now, ended = self.clock.now(), seen.result.time
        began = (ended and seen.result.began) or cluster.since
        disagree = seen.result.began is not None and ended is not None and ended < began
        took, longest = (ended or now) - began, now - cluster.since
        seconds = max(0.0, (longest if disagree else min(took, longest)).total_seconds())
        self._end(cluster, cluster.attempt, seen.result, seconds)
        return True

    def _unknown(self, cluster: ClusterState, why: str) -> bool:
        return self._found(cluster, "unknown", f"it is unknown whether its run is in progress: {why}")

    def _prepare(self, start: Start, state: ClusterState) -> _Seen:
        """What begins a cluster's next attempt, which may have been prepared too late for an earlier look."""
        cluster = self.fleet.by_name[start.cluster]
        names = [each.name for each in run_folders(cluster.folder / "runs")]
        if not start.resume and (lost := self._lost_run(state, names)):
            return _Seen(result=lost)
        # A run that is resumed must not have ended when it is looked for, so what was before it is the newest that may.
        before = names[: names.index(state.run)] if start.resume and state.run in names else names
        newest, after = names[-1] if names else "", before[-1] if before else NONE_BEFORE
        attempt = self.campaign.attempt(cluster.name, state.attempt + 1)
        arguments = ["-C", str(cluster.folder), "--kubeconfig", str(self._kubeconfig(cluster.name))]
        arguments += [*self.fleet.goal.command, "--yes", "-o", "json"]
        arguments += ["--campaign", self.campaign.name, "--after", after]
        arguments += ["--approved-inputs", Inputs.parse(state.digest).files]
        arguments += ["--approved-copies", str(self._copies(cluster.name)), *(["--resume"] if start.resume else [])]
        arguments += ["--begin-by", f"{start.by:%Y-%m-%dT%H:%M:%S%z}"] if start.by else []
        if state.changes:
            arguments += ["--approved-changes", state.changes]
        asked = (str(attempt), *arguments)
        known = self._prepared.get(cluster.name)
        if known is None or known[0] != asked:
            known = self._prepared[cluster.name] = asked, self._prepared_now(attempt, arguments)
        return replace(known[1], newest=newest)

    def _lost_run(self, state: ClusterState, names: Sequence[str]) -> Result | None:
        """How this campaign's newest run of a cluster ended, if the campaign's journal doesn't know of it: it was
        restored from a backup. None where there is no such run; one without an end is resumed (`Found.unended`).
        """
        folder = self.fleet.by_name[state.name].folder
        newest = newest_of_kind(folder / "runs", self.fleet.goal.kind)
        known = max((names.index(each) for each in (state.before, state.run) if each in names), default=-1)
        if newest is None or newest.state.campaign != self.campaign.name or names.index(newest.name) <= known:
            return None
        result = self._result(state, None, before="", resumed=newest.name)
        return None if result.open else result

    def _prepared_now(self, attempt: Path, arguments: Sequence[str]) -> _Seen:
        try:
            return _Seen(begin=self.executor.prepare(attempt, arguments))
        except UsageError as error:
            return _Seen(refused=error.message)

    def _kubeconfig(self, name: str) -> Path:
        """The copy with which a cluster's run works."""
        return self.campaign.attempt(name, 0).with_name(KUBECONFIG)

    def _copies(self, name: str) -> Path:
        """Where the copies are of what a cluster's run reads."""
        return self.campaign.attempt(name, 0).with_name(INPUTS)

    def _result(self, cluster: ClusterState, end: CommandEnd | None, *, before: str, resumed: str) -> Result:
        folder = self.fleet.by_name[cluster.name].folder
        campaign = self.campaign.name
        return result_of(end, cluster.name, folder, self.fleet.goal, campaign=campaign, before=before, resumed=resumed)

    def _silent(self, cluster: ClusterState, attempt: Path) -> str:
        """That a run in progress has written nothing for a long time, since when, and what to do; "" where it has."""
        assert cluster.since is not None, "it was begun"
        now, known = self.clock.now(), self._last_signs.get(attempt, cluster.since)
        if (now - known).total_seconds() < SILENT_SECONDS:  # it can't be silent for so long yet: two requests less
            return ""
        sign = self.executor.sign(attempt)
        last = self._last_signs[attempt] = min(max(sign.time or cluster.since, cluster.since), now)
        if (now - last).total_seconds() < SILENT_SECONDS:
            return ""
        return (
            f"its run to continue: {sign.process} has written nothing since {last:%Y-%m-%d %H:%M}Z; see "
            f"{sign.log or attempt} and the cluster. If it hangs, {sign.to_end}: the run is then resumed"
        )

    def _end(self, cluster: ClusterState, attempt: int, result: Result, seconds: float) -> None:
        """Write down how a run ended, and only then remove what tells: a coordinator that is killed here asks again."""
        self._found(cluster, "", "")
        self.journal.emit(
            ClusterEnded(
                cluster.name, attempt, result.outcome, seconds, result.run, result.cause, result.reason, result.open
            )
        )
        self._remove_copies(cluster.name)

    def _remove_copies(self, name: str) -> None:
        """What a run worked with; what can't be removed now is tried again before the next one, and by the next
        coordinator.
        """
        with suppress(OSError):
            self._kubeconfig(name).unlink(missing_ok=True)
            remove_copies(self._copies(name))

    def _found(self, cluster: ClusterState, problem: Problem, reason: str) -> bool:
        """Write down what was found of a cluster; whether that has changed. The journal has it with secrets masked."""
        if problem == cluster.problem:
            since, told = cluster.problem_since, cluster.problem_told
            if plain(reason) == cluster.problem_reason or not self._may_tell(since, told):
                return False
        self.journal.emit(ClusterChecked(cluster.name, problem, reason))
        return True

    def _skip(self, skip: Skip, state: ClusterState, found: Found) -> None:
        """Leave out a cluster that still doesn't answer: there may have been no coordinator to ask it until now."""
        if found.problem == "unreachable":
            self.journal.emit(ClusterSkipped(skip.cluster, "", skip.reason))
        else:
            self._found(state, found.problem, found.reason)

    def _start(
        self, ready: Mapping[str, UsedKubeconfig], decision: Decision, decided: float, state: CampaignState
    ) -> None:
        """Begin the runs of clusters that have answered, each with its kubeconfig, as it was decided then."""
        starts = {each.cluster: each for each in decision.starts}
        questions = {name: partial(_read, partial(self._prepare, starts[name], state.clusters[name])) for name in ready}
        begins: dict[str, Callable[[], _Begun]] = {}
        stopped, fresh_seconds = False, 0.0
        for name, seen in dict(self.reading.answers(questions)).items():
            each, start = state.clusters[name], starts[name]
            if seen is None or seen.problem:
                self._found(each, "unreachable", seen.problem if seen else self._unanswered)
                continue
            if seen.result:
                self._end(each, each.attempt, seen.result, 0.0)
                continue
            # A pause, or an edit, may have come since; and a window may have closed.
            if self.clock.monotonic() - decided > _FRESH_SECONDS:
                decided, decision = self.clock.monotonic(), self._decide(self.journaled())
            stopped = stopped or self.campaign.is_asked or self._holds(state, start, fresh_seconds)
            fresh_seconds = _FRESH_SECONDS  # of those that begin in one look, only the first reads the program
            if stopped or start not in decision.starts:
                continue
            self._prepared.pop(name, None)
            self.journal.emit(ClusterStarting(name, each.attempt + 1, start.resume, seen.newest))
            begins[name] = partial(self._begin, name, seen, ready[name])
        for name, begun in self.starting.answers(begins):
            if begun is not None:
                del self._begun[name]
                each = state.clusters[name]
                self._take_start(replace(each, attempt=each.attempt + 1), begun, resume=starts[name].resume)

    def _begin(self, name: str, seen: _Seen, kubeconfig: UsedKubeconfig) -> _Begun:
        """Begin a run: what goes wrong is that cluster's."""
        try:
            if seen.begin is None:
                raise UsageError(seen.refused)
            keep_kubeconfig(kubeconfig, self._kubeconfig(name))
            seen.begin()
            begun = _Begun()
        except UsageError as error:
            begun = _Begun(refused=error.message)
        except Exception as error:  # noqa: BLE001 - what surprises is that cluster's; whether it runs, its executor knows
            begun = _Begun(problem=f"{type(error).__name__}: {error}")
        self._begun[name] = begun
        return begun

    def _start_hangs(self, cluster: ClusterState) -> bool:
        """Name a start that takes too long; whether that is news."""
        assert cluster.since is not None, "it was begun"
        if (self.clock.now() - cluster.since).total_seconds() < _START_SECONDS:
            return False
        return self._unknown(cluster, f"its start has not ended within {_START_SECONDS:.0f} s")

    def _take_start(self, cluster: ClusterState, begun: _Begun, *, resume: bool) -> bool:
        """Write down that a run was not begun, or that this isn't known; whether there is anything to write."""
        if begun.problem:
            return self._unknown(cluster, begun.problem)
        if begun.refused:
            cause = cause_of("", begun.refused, cluster.name)
            run = cluster.run if resume else ""
            self._end(cluster, cluster.attempt, Result("interrupted", run, cause, begun.refused, resume), 0.0)
        return bool(begun.refused)

    def _counted(self, state: ClusterState, found: Found) -> bool:
        """Write down how many requests don't count for a cluster's soak; whether that is news."""
        if (counted := found.counted) is None:
            return False
        self.journal.emit(RequestsCounted(state.name, counted.server, counted.requests, counted.servers))
        return True

    def _gate(self, state: ClusterState, gate: GateAnswer) -> bool:
        """Write down which gate of its soak a cluster doesn't pass, if that is another one than before, or if it hasn't
        passed for as long as it may; whether that is news.
        """
        if state.gate_failed:
            return False
        not_passed = (self.clock.now() - state.gate_since).total_seconds() if state.gate_since else 0.0
        failed = not gate.passes and state.gate_since is not None and not_passed >= gate.deadline_seconds
        known = state.gate is None and state.gate_shut if gate.unknown else gate.gate == state.gate
        if known and not failed:
            return False
        self.journal.emit(SoakGateChecked(state.name, gate.gate, gate.reason, failed, gate.unknown))
        return True

    def _restarted(self, state: ClusterState, found: Found) -> bool:
        """Write down the pod that is to be evicted, or that it was replaced, or why neither; whether that is news."""
        if isinstance(found.restart, ChosenPod):
            self.journal.emit(PodChosen(state.name, found.restart))
            return True
        if found.restart == "":
            self.journal.emit(PodRestarted(state.name))
            return True
        return self._soak(state, found)

    def _soak(self, state: ClusterState, found: Found) -> bool:
        """Write down what a cluster is like at the end of its stage's soak; whether there is anything new."""
        if found.reason and (
            plain(found.reason) == state.soak_reason or not self._may_tell(state.soak_since, state.soak_told)
        ):
            return False
        self.journal.emit(SoakChecked(state.name, not found.reason, found.reason))
        return True

    def _may_tell(self, since: datetime | None, told: datetime | None) -> bool:
        """Whether another reason for the same may be written down, which was told then, and began at `since`. The text
        is another's: a server that words it differently each time would fill the journal, of which there is one for all
        clusters. So it is written at growing distances, but at once where the last one has held for long.
        """
        if since is None or told is None:
            return True
        pause = min((told - since).total_seconds(), _TELL_SECONDS)
        return (self.clock.now() - told).total_seconds() >= pause

    def _due(self, about: _About) -> bool:
        """Whether that may be asked again."""
        now = self.clock.monotonic()
        if now - self._asked.get(about, -_ASK_AGAIN_SECONDS) < _ASK_AGAIN_SECONDS:
            return False
        self._asked[about] = now
        return True


def _read(question: Callable[[], _Seen]) -> _Seen:
    """What is in one cluster's folder ends nothing for all others."""
    try:
        return question()
    except UpgraderError as error:
        return _Seen(problem=error.message)
    except Exception as error:  # noqa: BLE001 - what surprises is that cluster's
        return _Seen(problem=f"{type(error).__name__}: {error}")


def goes_on(decision: Decision, state: CampaignState) -> bool:
    """Whether anything can happen without a person."""
    if decision.done:
        return False
    timed = any(wait.timed for wait in (*decision.waits.values(), *decision.stages.values()))
    return in_progress(state, decision.waits) or timed or bool(decision.starts)
