"""Random campaigns, and an oracle that knows the rules in another way than `upgrader/fleet/decide.py` does.

A history plays a campaign: runs end in every way, APIs don't answer, people pause, approve, retry and skip. The oracle
keeps its own books. It reads windows off the wall clock, a quarter of an hour at a time, where the product computes
with calendars.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

from upgrader.fleet.coordinator import goes_on
from upgrader.fleet.cron import Cron
from upgrader.fleet.decide import Decision, decide, needed_seconds
from upgrader.fleet.events import (
    CampaignEvent,
    CampaignStarted,
    ChosenPod,
    ClusterChecked,
    ClusterEnded,
    ClusterInputs,
    ClusterSkipped,
    ClusterStarting,
    Paused,
    Pins,
    PodChosen,
    PodRestarted,
    RequestsCounted,
    RetryRequested,
    SoakChecked,
    SoakGateChecked,
    StageApproved,
    Unpaused,
)
from upgrader.fleet.model import Domains, Fleet, FleetCluster, MaxFailures, OnUnreachable, Stage
from upgrader.fleet.selectors import Requirement, Selector
from upgrader.fleet.state import CampaignState, fold
from upgrader.fleet.windows import Exclusion, Window
from upgrader.model.health_before import IntOrPercent
from upgrader.model.version import KubernetesVersion

__all__ = ["Broken", "play", "touches"]

_ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC")
_FIRST = datetime(2027, 3, 5, tzinfo=UTC)
"""Within the weeks that follow, clocks go forward in New York and Berlin, and back by half an hour in Lord Howe."""
_DAYS = 240
"""Longer than any history, of which windows of one night a week make long ones: later ones aren't known."""
_FAILED = ["blocked", "rolled-back", "broken", "interrupted", "interrupted-before"]
_OUTCOMES = (
    ["succeeded"] * 6 + _FAILED,
    ["succeeded"] * 2 + _FAILED[:3],
    ["succeeded", "interrupted", "interrupted", "interrupted", "interrupted-before"],
)
"""How runs of one history end: mostly well, often badly, or in the middle."""
_NEED_HELP = ("blocked", "rolled-back", "broken", "given-up", "given-up-before", "skipped")
_QUARTER = timedelta(minutes=15)
"""Schedules of these histories begin at its multiples, and so do changes of the clocks."""


class Broken(AssertionError):
    """A rule was broken, by which action, at what time."""


@dataclass
class _Book:
    """What the oracle knows of a cluster."""

    stage: int
    domain: str
    status: str = "new"
    """new, running, stuck (in the middle of a run), to-repeat (interrupted before it), ok, skipped, blocked,
    rolled-back, broken, given-up (in the middle of a run), given-up-before.
    """
    halfway: bool = False
    """Whether a run was begun that has no end."""
    worked: float = 0.0
    ended: datetime | None = None
    soaked: datetime | None = None
    counted: int = 0
    """Of how many of its API servers it is known what they have answered before the soak."""
    gates: str = "unasked"
    """Of its soak: unasked, pass, shut, or failed: until a person comes."""
    pod: str = "old"
    """Of the restart in its soak: old, chosen, new."""
    failing: datetime | None = None
    """Since when that has made no progress."""
    stubborn: bool = False
    """Whether it has no pod that can be chosen, until a person helps."""
    interruptions: int = 0
    cause: str = ""
    problem: str = ""
    problem_since: datetime | None = None
    due: datetime | None = None
    """Before this time, an interrupted run isn't tried again."""

    def lacks_counts(self, now: datetime) -> bool:
        """Whether it is still asked through API servers that were not asked: within an hour, or none was."""
        assert self.ended is not None, "it has ended"
        return self.counted == 0 or (self.counted == 1 and now - self.ended < timedelta(hours=1))


@dataclass
class _Oracle:
    fleet: Fleet
    books: dict[str, _Book]
    limits: list[dict[str, int]]
    """Of each stage: how many of its clusters may be in a status, and run at once."""
    paused: bool = False
    approved: set[str] = field(default_factory=set)
    seconds: list[float] = field(default_factory=list)

    def begins(self, name: str, now: datetime, *, resume: bool) -> None:
        """Write down that this cluster begins now, or goes on. Raise Broken where it must not."""
        self.may_begin(name, now, resume=resume)
        book = self.books[name]
        book.worked = book.worked if resume else 0.0
        book.status, book.halfway, book.soaked, book.due, book.counted = "running", resume, None, None, 0
        book.gates, book.pod, book.failing = "unasked", "old", None

    def held_back(self, name: str, now: datetime) -> bool:
        """Whether this cluster could begin now, or go on."""
        try:
            self.may_begin(name, now, resume=self.books[name].status == "stuck")
        except Broken:
            return False
        return True

    def may_begin(self, name: str, now: datetime, *, resume: bool) -> None:
        """Raise Broken where this cluster must not begin now, or go on."""
        book = self.books[name]
        if book.due is not None and now < book.due:
            raise Broken(f"{name} was begun too early after an interruption")
        if resume:
            if book.status != "stuck" or book.problem in ("identity", "changed"):
                raise Broken(f"{name} is {book.status} {book.problem}, and was resumed")
            return
        if book.status not in ("new", "to-repeat"):
            raise Broken(f"{name} is {book.status}, and was begun")
        if book.problem:
            raise Broken(f"{name} was begun although it is {book.problem}")
        if self.paused:
            raise Broken(f"{name} was begun during a pause")
        for number in range(book.stage):
            self._passed(number, now)
        if self.fleet.stages[book.stage].approval and self.fleet.stages[book.stage].name not in self.approved:
            raise Broken(f"{name} was begun without an approval")
        self._budgets(name, book)
        self._times(name, now, timedelta(seconds=2 * self.p95()))

    def gave_up(self, name: str, now: datetime) -> bool:
        """Whether no pod of it could be chosen for an hour."""
        book = self.books[name]
        return book.pod == "old" and book.failing is not None and now - book.failing >= timedelta(hours=1)

    def may_restart(self, name: str, now: datetime, others: int) -> None:
        """Raise Broken where no pod of this cluster may be restarted now, while that is so in `others`."""
        book = self.books[name]
        stage = self.fleet.stages[book.stage]
        mine = [each for each in self.books.values() if each.stage == book.stage]
        if book.status != "ok" or book.pod == "new" or not stage.soak_restart or self.paused:
            raise Broken(f"a pod of {name} was restarted, which is {book.status}, {book.pod}")
        if any(each.status in ("new", "running", "stuck", "to-repeat") for each in mine):
            raise Broken(f"a pod of {name} was restarted before its stage was complete")
        if others >= self.limits[book.stage]["at once"]:
            raise Broken(f"a pod of {name} is one too many at once")
        if any(each.domain != book.domain for each in self.books.values() if each.status == "running" or each.halfway):
            raise Broken(f"a pod of {name} was restarted while another domain was upgraded")
        self._limits(name)
        if book.pod == "old":
            self._times(name, now, timedelta(minutes=10))

    def may_evict(self, name: str, now: datetime) -> None:
        """Raise Broken where no pod of this cluster may be evicted now, whenever it was chosen."""
        self._times(name, now, timedelta())

    def is_over(self, now: datetime) -> None:
        """Raise Broken where the campaign isn't done."""
        for number in range(len(self.fleet.stages)):
            self._passed(number, now)
        if self.paused:
            raise Broken("it is done, and paused")
        self._limits("the end")

    def left_out(self, name: str, now: datetime) -> None:
        """Raise Broken where no one asked for that, and its API may still answer in time."""
        book, rule = self.books[name], self.fleet.stages[self.books[name].stage].on_unreachable
        since = book.problem_since
        if book.problem != "unreachable" or rule.then != "skip" or since is None:
            raise Broken(f"{name} was skipped, and isn't unreachable")
        if now < since + timedelta(seconds=rule.wait_seconds):
            raise Broken(f"{name} was skipped too early")

    def must_leave_out(self, name: str, now: datetime) -> bool:
        """Whether its API hasn't answered for so long that it is left out, if its turn has come."""
        book, stage = self.books[name], self.fleet.stages[self.books[name].stage]
        if (
            self.paused
            or book.status not in ("new", "to-repeat")
            or (stage.approval and stage.name not in self.approved)
        ):
            return False
        try:
            for number in range(book.stage):
                self._passed(number, now)
            self._limits(name)
            self.left_out(name, now)
        except Broken:
            return False
        return True

    def _passed(self, number: int, now: datetime) -> None:
        stage, mine = self.fleet.stages[number], [each for each in self.books.values() if each.stage == number]
        if any(each.status in ("new", "running", "stuck", "to-repeat") for each in mine):
            raise Broken(f"stage {stage.name} wasn't complete")
        if all(each.status != "ok" for each in mine):
            raise Broken(f"stage {stage.name} has no success")
        if stage.soak_restart and any(each.status == "ok" and each.pod != "new" for each in mine):
            raise Broken(f"a pod of stage {stage.name} was not restarted")
        if not stage.soak_seconds and not stage.soak_requests and not stage.soak_gates and not stage.soak_restart:
            return
        over = max(each.ended for each in mine if each.ended and each.status != "skipped")
        over += timedelta(seconds=stage.soak_seconds)
        if now < over or any(each.status == "ok" and (not each.soaked or each.soaked < over) for each in mine):
            raise Broken(f"stage {stage.name} had not soaked")
        if stage.soak_gates and any(each.status == "ok" and each.gates != "pass" for each in mine):
            raise Broken(f"a gate of stage {stage.name} had not passed")

    def _budgets(self, name: str, book: _Book) -> None:
        busy = [each for each in self.books.values() if each.status == "running" or each.halfway]
        if sum(each.stage == book.stage for each in busy) + 1 > self.limits[book.stage]["at once"]:
            raise Broken(f"{name} is one too many at once")
        if any(each.domain != book.domain for each in busy):
            raise Broken(f"{name} was begun while another domain was")
        self._limits(name)

    def _limits(self, name: str) -> None:
        if any(each.status == "ok" and each.gates == "failed" for each in self.books.values()):
            raise Broken(f"{name} was begun after a gate has failed in a soak")
        causes = [each.cause for each in self.books.values() if each.cause]
        for number, limits in enumerate(self.limits):
            mine = [each for each in self.books.values() if each.stage == number]
            for status in ("blocked", "rolled-back", "broken"):
                if sum(each.status == status for each in mine) > limits[status]:
                    raise Broken(f"{name} was begun after too many were {status}")
            if sum(each.status in ("given-up", "given-up-before") for each in mine) > limits["interrupted"]:
                raise Broken(f"{name} was begun after too many were interrupted")
            if any(each.cause and causes.count(each.cause) > limits["same cause"] for each in mine):
                raise Broken(f"{name} was begun after a second failure of one cause")

    def _times(self, name: str, now: datetime, needed: timedelta) -> None:
        labels = self.fleet.by_name[name].labels
        for each in self.fleet.exclusions:
            if each.selector.selects(labels) and touches(each, now, now + needed):
                raise Broken(f"{name} was begun in, or too close to, an exclusion")
        mine = [each for each in self.fleet.windows if each.selector.selects(labels)]
        if mine and not any(
            start <= now and now + needed <= start + timedelta(seconds=each.seconds)
            for each in mine
            for start in _starts(each.cron.text, str(each.zone))
        ):
            raise Broken(f"{name} was begun outside of its windows")

    def slower_than_windows(self) -> bool:
        """Whether clusters have no window in which a run and its rollback would fit, as runs have become so long."""
        left = [name for name, each in self.books.items() if each.status in ("new", "to-repeat")]
        mine = [
            [each.seconds for each in self.fleet.windows if each.selector.selects(self.fleet.by_name[name].labels)]
            for name in left
        ]
        return any(lengths and max(lengths) < 2 * self.p95() for lengths in mine)

    def p95(self) -> float:
        """How long 95 % of the runs took at most; never less than the file expects."""
        values, least = self.seconds, self.fleet.expected_seconds
        if not values:
            return least
        took = next(each for number, each in enumerate(sorted(values), 1) if 100 * number >= 95 * len(values))
        return took if took > least else least


@cache
def _wall(zone: str) -> list[tuple[datetime, datetime]]:
    """Each quarter of an hour in UTC, and what a clock on the wall shows then."""
    there = ZoneInfo(zone)
    first = _FIRST - timedelta(days=3)
    quarters = (first + number * _QUARTER for number in range((_DAYS + 6) * 96))
    return [(each, each.astimezone(there).replace(tzinfo=None)) for each in quarters]


@cache
def _starts(cron: str, zone: str) -> tuple[datetime, ...]:
    """When a schedule `M H * * DAYS` begins: as someone would who looks at a clock all the time."""
    minute, hour, _, _, days = cron.split()
    weekdays = set(range(7)) if days == "*" else {int(each) % 7 for each in days.split(",")}
    found, seen = [], set[datetime]()
    last: datetime | None = None
    for instant, shown in _wall(zone):
        passed = [shown]
        if last is not None and shown - last > _QUARTER:  # the clock was put forward over these
            passed += [last + number * _QUARTER for number in range(1, round((shown - last) / _QUARTER))]
        for each in passed:
            due = (each.hour, each.minute) == (int(hour), int(minute)) and each.isoweekday() % 7 in weekdays
            if due and each not in seen:
                seen.add(each)
                found.append(instant)
        last = shown
    return tuple(found)


def touches(exclusion: Exclusion, begin: datetime, end: datetime) -> bool:
    """Whether any moment from `begin`, which counts in each case, to before `end` is on one of its days."""
    there, instant = exclusion.zone, begin
    while instant < end:
        if exclusion.first <= instant.astimezone(there).date() <= exclusion.last:
            return True
        instant += timedelta(minutes=10)
    return exclusion.first <= max(begin, end - timedelta(seconds=1)).astimezone(there).date() <= exclusion.last


def play(seed: int) -> int:
    """Play one history; how many runs were begun in it. Raises Broken where a rule was broken."""
    return _Play(random.Random(seed)).play()


class _Play:
    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.fleet = _fleet(dice)
        limits = []
        for stage in self.fleet.stages:
            total = len(self.fleet.members[stage.name])
            rules = stage.max_failures
            limits.append(
                {
                    "at once": max(1, _share(stage.max_concurrency, total)),
                    "blocked": _share(rules.blocked, total),
                    "rolled-back": _share(rules.rolled_back, total),
                    "broken": _share(rules.broken, total),
                    "interrupted": _share(rules.interrupted, total),
                    "same cause": rules.same_cause,
                }
            )
        stages = [stage.name for stage in self.fleet.stages]
        domains = self.fleet.domains
        books = {
            each.name: _Book(stages.index(each.labels["ring"]), each.labels["region"] if domains else "")
            for each in self.fleet.clusters
        }
        self.oracle = _Oracle(self.fleet, books, limits)
        for each in books.values():
            each.stubborn = dice.random() < 0.1
        self.now = _FIRST + timedelta(minutes=dice.randrange(20 * 1440))
        inputs = tuple(ClusterInputs(each.name, "d") for each in self.fleet.clusters)
        self.state = CampaignState()
        self.tell(CampaignStarted("c", self.fleet.target, Pins("1", "c", "p"), inputs, "me"))
        # As if there had been more clusters: of fewer than twenty runs, the 95th percentile is the longest one.
        before = [float(dice.randrange(300, 1500)) for _ in range(dice.choice([0, 0, 5, 19, 20, 21, 45]))]
        self.state, self.oracle.seconds = replace(self.state, seconds=tuple(before)), before
        self.begun = 0
        self.outcomes = dice.choice(_OUTCOMES)
        self.skipped, self.answered = dice.choice([0.03, 0.03, 0.1]), dice.choice([0.8, 0.8, 0.1])

    def tell(self, event: CampaignEvent) -> None:
        self.state = fold([(self.now, event)], self.state)

    def play(self) -> int:
        """Trouble first; then everything succeeds and a person helps, so that the campaign has to end."""
        for _ in range(self.dice.randrange(5, 40)):
            self._look()
            self._trouble()
            self._time_passes()
        for _ in range(400):
            decision = self._look()
            if decision.done:
                return self.begun
            self._help()
            self._time_passes(decision)
        if not self.oracle.slower_than_windows():
            raise Broken(f"the campaign never ended: {self._decide().stages} {self._decide().waits}")
        return self.begun

    def _decide(self) -> Decision:
        return decide(self.fleet, self.state, self.now)

    def _look(self) -> Decision:
        decision = self._decide()
        if needed_seconds(self.fleet, self.state) != 2 * self.oracle.p95():
            raise Broken(f"a run would take {needed_seconds(self.fleet, self.state)} s, not {2 * self.oracle.p95()}")
        for skip in decision.skips:
            self.oracle.left_out(skip.cluster, self.now)
            self._skip(skip.cluster)
        for start in decision.starts:
            self.oracle.begins(start.cluster, self.now, resume=start.resume)
            attempt = self.state.clusters[start.cluster].attempt + 1
            self.tell(ClusterStarting(start.cluster, attempt, start.resume))
            self.begun += 1
        for name in self.oracle.books:
            if not decision.skips and self.oracle.must_leave_out(name, self.now):
                raise Broken(f"{name} doesn't answer, and wasn't left out: {decision.waits.get(name)}")
            if not decision.skips and self.oracle.held_back(name, self.now):
                raise Broken(f"{name} could begin, and was held back: {decision.waits.get(name)}")
        self._count(decision)
        self._restart(decision)
        self._ask_gates(decision)
        for name in decision.soaks:
            if self.dice.random() < self.answered:
                self.tell(SoakChecked(name, passed=True))
                self.oracle.books[name].soaked = self.now
        if decision.done:
            self.oracle.is_over(self.now)
        self._persons_are_needed(self._decide())
        self._nobody_is_forgotten(decision)
        return decision

    def _count(self, decision: Decision) -> None:
        """Clusters that soak by requests say what they have answered before: at least one of two API servers each."""
        for name, book in self.oracle.books.items():
            needed = self.fleet.stages[book.stage].soak_requests and book.status == "ok" and not book.soaked
            if (name in decision.counts) != bool(needed and book.lacks_counts(self.now)):
                raise Broken(f"{name} has {book.counted} counts, and the decision is {decision.counts}")
        for name in decision.counts:
            if self.dice.random() < self.answered:
                self.oracle.books[name].counted += 1
                self.tell(RequestsCounted(name, str(self.oracle.books[name].counted), 5, 2))

    def _ask_gates(self, decision: Decision) -> None:
        """Clusters with a gate in their soak are asked until they have soaked, or a person has to come. Some are shut,
        and few for so long that they have failed.
        """
        for name, book in self.oracle.books.items():
            gated = self.fleet.stages[book.stage].soak_gates and book.status == "ok" and book.gates != "failed"
            if (name in decision.gates) != bool(gated and (not book.soaked or book.gates != "pass")):
                raise Broken(f"{name}, whose gates are {book.gates}, and the decision is {decision.gates}")
        for name in decision.gates:
            book = self.oracle.books[name]
            if self.dice.random() < self.answered:
                late = book.gates == "shut" and self.dice.random() < 0.3
                book.gates = "failed" if late else self.dice.choice(["pass", "pass", "pass", "shut"])
                gate = "" if book.gates == "pass" else "errors"
                self.tell(SoakGateChecked(name, gate, gate, book.gates == "failed"))

    def _restart(self, decision: Decision) -> None:
        """A pod is chosen, and replaced; those of two domains never at once."""
        books = self.oracle.books
        placed = [name for name in decision.restarts if not self.oracle.gave_up(name, self.now)]
        if len({books[name].domain for name in placed}) > 1:
            raise Broken(f"pods of two domains were restarted at once: {decision.restarts}")
        if decision.unrestartable:
            raise Broken(f"each window and exclusion leaves ten minutes, and the decision is {decision.unrestartable}")
        self._nobody_waits_for_stubborn_ones(placed)
        for name in decision.restarts:
            self.oracle.may_restart(name, self.now, placed.index(name) if name in placed else 0)
            if name in decision.evictions:
                self.oracle.may_evict(name, self.now)
            elif books[name].pod == "old":
                raise Broken(f"a pod of {name} was chosen that may not be evicted")
            first = books[name].pod == "old"
            if self.dice.random() < 0.8 and not (first and books[name].stubborn):
                books[name].pod, books[name].failing = "chosen" if first else "new", None
                self.tell(PodChosen(name, ChosenPod("d", "p", "u")) if first else PodRestarted(name))
            elif self.dice.random() < 0.8:
                books[name].failing = books[name].failing or self.now
                self.tell(SoakChecked(name, passed=False, reason="no pod"))

    def _nobody_waits_for_stubborn_ones(self, placed: Sequence[str]) -> None:
        """A restart that was not tried comes before one for which no pod could be chosen."""
        books = self.oracle.books
        behind = [books[name] for name in placed if books[name].pod == "old" and books[name].failing]
        for name, book in books.items():
            if book.pod != "old" or book.failing or name in placed:
                continue
            try:
                self.oracle.may_restart(name, self.now, 0)
            except Broken:
                continue
            if any(each.stage == book.stage and each.domain == book.domain for each in behind):
                raise Broken(f"the restart in {name} waits for one that makes no progress: {placed}")

    def _nobody_is_forgotten(self, decision: Decision) -> None:
        """A cluster that isn't begun waits for something, or its stage does; a wait with a time is for the future."""
        started = {each.cluster for each in decision.starts} | {each.cluster for each in decision.skips}
        for name, book in self.oracle.books.items():
            waits = name in decision.waits or self.fleet.stage_of[name].name in decision.stages
            if book.status in ("new", "stuck", "to-repeat") and name not in started and not waits:
                raise Broken(f"{name} was forgotten")
        for name, wait in decision.waits.items():
            if wait.until is not None and wait.until <= self.now:
                raise Broken(f"{name} waits until a time that has passed")

    def _persons_are_needed(self, decision: Decision) -> None:
        """Where nothing goes on without a person, nothing does however long no one comes."""
        if decision.done or decision.starts or decision.skips or goes_on(decision, self.state):
            return
        if not any(wait.person for wait in decision.stages.values()):
            raise Broken(f"nothing goes on, and no person is called: {decision}")
        later = decide(self.fleet, self.state, self.now + timedelta(days=self.dice.choice([1, 4, 9])))
        if later.done or later.starts or later.skips:
            raise Broken(f"a person is called, and {later} would come without one: {decision}")

    def _end(self, name: str, outcome: str) -> None:
        book = self.oracle.books[name]
        seconds = float(self.dice.randrange(300, 1500))
        run = "" if outcome == "interrupted-before" else "r"
        told = "interrupted" if outcome.startswith("interrupted") else outcome
        failed = told in ("blocked", "rolled-back", "broken")
        cause = self.dice.choice(["one", "two", "three"]) if failed or told == "interrupted" else ""
        attempt = self.state.clusters[name].attempt
        self.tell(ClusterEnded(name, attempt, told, seconds, run, cause, cause, told == "interrupted" and bool(run)))  # type: ignore[arg-type]
        book.ended, book.cause = self.now, cause if failed else ""
        book.worked += seconds
        if told in ("succeeded", "rolled-back"):
            self.oracle.seconds.append(book.worked)
        book.halfway = bool(run) and told == "interrupted"
        if told == "interrupted":
            book.interruptions += 1
            book.due = self.now + timedelta(minutes=2 ** (book.interruptions - 1))
            over = book.interruptions > 3
            book.status = ("given-up" if run else "given-up-before") if over else ("stuck" if run else "to-repeat")
            book.cause = cause if over else ""
        else:
            book.interruptions = 0
            book.status = "ok" if told == "succeeded" else told

    def _end_by_hand(self, name: str) -> None:
        """A person ends the run of a cluster that is left out: it stays so, and holds no place."""
        book, outcome = self.oracle.books[name], self.dice.choice(["succeeded", "rolled-back", "broken"])
        self.tell(ClusterEnded(name, self.state.clusters[name].attempt, outcome, 0.0, "r"))  # type: ignore[arg-type]
        book.halfway = False

    def _skip(self, name: str, by: str = "") -> None:
        book = self.oracle.books[name]
        self.tell(ClusterSkipped(name, by, "because"))
        held_up = book.status == "ok" and (book.gates in ("shut", "failed") or book.failing is not None)
        if held_up or book.status not in ("running", "ok", "skipped"):
            book.status, book.cause = "skipped", ""

    def _retry(self, name: str) -> None:
        book = self.oracle.books[name]
        self.tell(RetryRequested(name, "me"))
        if book.status == "ok" and book.gates == "failed":
            book.gates = "unasked"
        if book.status in ("running", "ok"):
            return
        book.problem, book.problem_since, book.cause = "", None, ""
        if book.status != "new":
            book.status, book.ended = "stuck" if book.halfway else "new", self.now
            book.interruptions = 0
            book.due = self.now + timedelta(minutes=1) if book.halfway else None

    def _trouble(self) -> None:
        dice, books = self.dice, self.oracle.books
        for name, book in books.items():
            if book.status == "running" and dice.random() < 0.6:
                self._end(name, dice.choice(self.outcomes))
            elif book.status == "skipped" and book.halfway and dice.random() < 0.3:
                self._end_by_hand(name)
            elif book.problem and dice.random() < 0.3:
                self.tell(ClusterChecked(name, book.problem, "still"))  # type: ignore[arg-type]
            elif dice.random() < (0.3 if book.status == "stuck" else 0.06):
                problem = dice.choice(["", "unreachable", "unreachable", "identity", "changed", "rehearsal"])
                self.tell(ClusterChecked(name, problem, "so"))  # type: ignore[arg-type]
                if problem != book.problem:
                    book.problem, book.problem_since = problem, self.now
            elif dice.random() < 0.05:
                self._retry(name)
            elif dice.random() < self.skipped:
                self._skip(name, "me")
        if dice.random() < 0.1:
            self.tell(Paused("me", ""))
            self.oracle.paused = True
        elif dice.random() < 0.3:
            self.tell(Unpaused("me"))
            self.oracle.paused = False
        if dice.random() < 0.2:
            self._approve(dice.choice(self.fleet.stages).name)

    def _approve(self, stage: str) -> None:
        self.tell(StageApproved(stage, "me", "fine"))
        self.oracle.approved.add(stage)

    def _help(self) -> None:
        self.tell(Unpaused("me"))
        self.oracle.paused = False
        for stage in self.fleet.stages:
            self._approve(stage.name)
        for name, book in self.oracle.books.items():
            book.stubborn = False
            if book.status == "running":
                self._end(name, "succeeded")
            elif book.problem:
                self.tell(ClusterChecked(name, ""))
                book.problem = ""
            elif book.gates == "failed" or book.status in _NEED_HELP:
                self._retry(name)

    def _time_passes(self, decision: Decision | None = None) -> None:
        times = [each.until for each in decision.waits.values() if each.until] if decision else []
        times += [each.until for each in decision.stages.values() if each.until] if decision else []
        later = [each for each in times if each > self.now]
        if later and self.dice.random() < 0.7:
            self.now = min(later)
        else:
            self.now += timedelta(seconds=self.dice.choice([1, 30, 90, 600, 3600, 4 * 3600]))


def _share(value: IntOrPercent, total: int) -> int:
    text = str(value)
    return int(total * int(text[:-1]) / 100 + 1e-9) if text.endswith("%") else int(text)


def _fleet(dice: random.Random) -> Fleet:
    rings = ("canary", "early", "late")[: dice.randrange(1, 4)]
    regions = ("east", "west")
    names = [f"{ring}-{number}" for ring in rings for number in range(dice.randrange(1, 5))]
    clusters = tuple(
        FleetCluster(name, Path("/none"), name, {"ring": name.rpartition("-")[0], "region": dice.choice(regions)})
        for name in names
    )
    stages = tuple(
        Stage(
            ring,
            _label("ring", ring),
            dice.choice([IntOrPercent(1), IntOrPercent(2), IntOrPercent(percent=50), IntOrPercent(percent=5)]),
            _max_failures(dice),
            OnUnreachable(dice.choice([600.0, 48 * 3600.0]), dice.choice(["skip", "stop"])),
            approval=dice.random() < 0.3,
            soak_seconds=dice.choice([0.0, 600.0, 24 * 3600.0]),
            soak_requests=dice.choice([0, 0, 1000]),
            soak_gates=dice.choice([(), (), ("errors",)]),
            soak_restart=dice.random() < 0.3,
        )
        for ring in rings
    )
    return Fleet(
        KubernetesVersion.release("v1.37.1"),
        stages,
        clusters,
        domains=Domains("region") if dice.random() < 0.5 else None,
        windows=tuple(_windows(dice)),
        exclusions=tuple(_exclusions(dice)),
        expected_seconds=dice.choice([900.0, 1800.0]),
    )


def _max_failures(dice: random.Random) -> MaxFailures:
    choices = [IntOrPercent(percent=100)]
    if dice.random() < 0.7:
        choices += [IntOrPercent(), IntOrPercent(1), IntOrPercent(percent=40)]
    blocked, rolled_back, broken, interrupted = (dice.choice(choices) for _ in range(4))
    return MaxFailures(blocked, rolled_back, broken, interrupted, same_cause=dice.choice([1, 2]))


def _label(key: str, value: str) -> Selector:
    return Selector((Requirement(key, "In", (value,)),))


def _windows(dice: random.Random) -> Iterator[Window]:
    for _ in range(dice.randrange(3)):
        selector = dice.choice([Selector(), _label("region", "east"), _label("ring", "canary")])
        days = dice.choice(["*", "1,2,3,4", "0,6", "0"])
        cron = f"{dice.choice([0, 15, 30])} {dice.choice([0, 1, 2, 3, 22, 23])} * * {days}"
        zone = dice.choice(_ZONES)
        yield Window(selector, Cron.parse(cron), dice.choice([3600.0, 4 * 3600.0]), ZoneInfo(zone))


def _exclusions(dice: random.Random) -> Iterator[Exclusion]:
    for _ in range(dice.randrange(3)):
        first = date(2027, 3, 5) + timedelta(days=dice.randrange(30))
        selector = dice.choice([Selector(), _label("region", "west")])
        yield Exclusion(selector, first, first + timedelta(days=dice.randrange(4)), ZoneInfo(dice.choice(_ZONES)))
