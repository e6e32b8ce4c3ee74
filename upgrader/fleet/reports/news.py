"""What people are told of a campaign: a message for each kind of news, however many clusters have it. Pure.

What has happened is read from the journal's events, and what is waited for from the coordinator's decision. `Told` is
what people know already: with the journal, it is all that the next coordinator needs to tell nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from upgrader.fleet.causes import cause_of
from upgrader.fleet.coordinator import goes_on
from upgrader.fleet.decide import Decision, Wait, failed_gate, overdrawn
from upgrader.fleet.events import (
    CampaignContinued,
    CampaignEnded,
    CampaignEvent,
    CampaignStarted,
    ClusterChecked,
    ClusterEnded,
    ClusterSkipped,
    ClusterStarting,
    InputsApproved,
    Outcome,
    Paused,
    RetryRequested,
    Unpaused,
)
from upgrader.fleet.model import Fleet, Stage
from upgrader.fleet.reports.words import first_line
from upgrader.fleet.state import RETRIES, CampaignState, ClusterState, Phase
from upgrader.model.counted import counted
from upgrader.model.first_few import first_few
from upgrader.model.redaction.printable import printable
from upgrader.reporting.observability.messages import COLOURS, Message, Topic

__all__ = ["CampaignNews", "Told"]

_CAUSES = 3
"""How many of them a message has."""
_CAUSE_CHARACTERS = 300
_RETRY = "Fix the cause, then: upgrader fleet retry CLUSTER"
_STATUS = "upgrader fleet status"
_Kind = tuple[Topic, str, str, str]
_PERSON: _Kind = ("failure", "waits for an operator", "wait for an operator", _STATUS)
_LOST: _Kind = ("failure", "has a run that may have stopped", "have runs that may have stopped", _STATUS)
_AGAIN = f"was interrupted more than {RETRIES} times"
_KINDS: Mapping[str, _Kind] = {
    "broken": ("failure", "requires manual action", "require manual action", _RETRY),
    "rolled-back": ("rollback", "was rolled back", "were rolled back", _RETRY),
    "blocked": ("failure", "is blocked", "are blocked", _RETRY),
    "interrupted": ("failure", _AGAIN, _AGAIN.replace("was", "were"), _RETRY),
    "unreachable": ("failure", "is unreachable", "are unreachable", _STATUS),
    **dict.fromkeys(("identity", "changed", "journals", "unended", "rehearsal"), _PERSON),
    **dict.fromkeys(("unknown", "silent"), _LOST),
    "skipped": ("failure", "was left out", "were left out", "upgrader fleet retry CLUSTER"),
}
"""What happens to clusters, in the order of messages: topic, what is said of one and of many, and what to do."""
_PHASES: tuple[Phase, ...] = (*get_args(Outcome), "skipped", "running", "waiting")


@dataclass(frozen=True)
class Told:
    """What people know of a campaign, and so are not told again. Stages are known by their names."""

    events: int = 0
    """How many of the journal's events that is."""
    done: tuple[str, ...] = ()
    """The stages that were done."""
    approvals: tuple[str, ...] = ()
    """Those that waited for an approval."""
    stuck: tuple[str, ...] = ()
    """Those that wait for an operator, for any other reason than that no cluster may begin."""
    stopped: str = ""
    """Why no cluster may begin, besides a pause: `limit`, `gate of CLUSTER`, `other`, or "": none of it."""
    halted: bool = False
    """Whether nothing went on without an operator, also because it had ended."""


@dataclass(frozen=True)
class _Affected:
    """A cluster to which something has happened, and why."""

    name: str
    reason: str
    cause: str
    """Equal for clusters with the same reason."""


class CampaignNews:
    """Takes a campaign's events, and makes messages of what has come since the last ones."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet, self._events = fleet, 0
        self._state = CampaignState()
        self._by = ""
        self._problems: set[tuple[str, int, str]] = set()
        """Cluster, attempt and problem: a server that answers every other time is told of once."""
        self._begin: list[Message] = []
        self._stages: dict[str, Message] = {}
        self._affected: dict[str, dict[str, _Affected]] = {}
        """By the kind, and by the cluster's name."""
        self._end: Message | None = None

    @property
    def state(self) -> CampaignState:
        """What all events say."""
        return self._state

    def take(self, event: CampaignEvent, before: CampaignState, after: CampaignState, told: int = 0) -> None:
        """The journal's next event, and the campaign before and after it; people know of its first `told` events."""
        self._state = after
        self._events += 1
        self._see(event, before, new=self._events > told)

    def messages(self, decision: Decision, told: Told) -> tuple[tuple[Message, ...], Told]:
        """All that people don't know yet, and what they know with it. `decision` is of the last event."""
        fleet, state = self._fleet, self._state
        done = tuple(each.name for each in fleet.stages if self._is_done(each, decision, told))
        approvals = [name for name, wait in self._waiting(decision) if wait is None]
        stuck = {name: wait for name, wait in self._waiting(decision) if wait is not None}
        halted = not goes_on(decision, state)
        now = Told(
            self._events,
            done,
            tuple(dict.fromkeys([*told.approvals, *approvals])),
            told.stuck if decision.stop else tuple(stuck),
            self._stopped(decision, told),
            halted,
        )
        found = [*self._begin]
        if told.halted and not halted and not self._begin and not self._end:
            found.append(self._message("start", f"campaign {state.campaign} continues, by {self._by}"))
        for stage in fleet.stages:
            found += [self._stages[stage.name]] if stage.name in self._stages else []
            found += self._affected_first_in(stage)
            found += [self._done(stage)] if stage.name in now.done and stage.name not in told.done else []
            if stage.name in approvals and stage.name not in told.approvals:
                found.append(self._approval(stage))
            elif stage.name in stuck and stage.name in now.stuck and stage.name not in told.stuck:
                text = stuck[stage.name].said(f"stage {stage.name} waits")
                found.append(self._message("failure", text, Stage=stage.name, Remedy=_STATUS))
        if now.stopped and now.stopped != told.stopped:
            text = f"no further cluster begins: {decision.stop}"
            found.append(self._message("failure", text, Remedy=_STATUS))
        found += [self._end] if self._end else []
        self._begin, self._stages, self._affected, self._end = [], {}, {}, None
        return tuple(found), now

    def _see(self, event: CampaignEvent, before: CampaignState, *, new: bool) -> None:
        """Keep what an event says, if it is `new`."""
        if isinstance(event, CampaignStarted | CampaignContinued):
            self._by = event.by
        if isinstance(event, InputsApproved | RetryRequested):  # to an operator, its problem is solved
            self._problems = {each for each in self._problems if each[0] != event.cluster}
        if isinstance(event, ClusterChecked):
            if not event.problem or event.cluster not in self._state.clusters:
                return
            key = (event.cluster, self._state.clusters[event.cluster].attempt, event.problem)
            new = new and key not in self._problems
            self._problems.add(key)
        if not new:
            return
        match event:
            case CampaignStarted():
                stages = ", ".join(each.name for each in self._fleet.stages)
                clusters = counted(len(self._fleet.clusters), "cluster")
                text = f"campaign {event.campaign} has started, by {event.by}: {self._fleet.goal} of {clusters}"
                self._begin.append(self._message("start", f"{text}; stages: {stages}"))
            case Paused():
                because = f": {event.reason}" if event.reason else ""
                text = f"the campaign was paused by {event.by}{because}"
                self._begin.append(self._message("start", text, Remedy="upgrader fleet resume"))
            case Unpaused():
                self._begin.append(self._message("start", f"the campaign was resumed by {event.by}"))
            case CampaignEnded():
                self._end = self._ending()
            case ClusterStarting():
                self._starting(event.cluster, before)
            case ClusterChecked():
                self._affect(event.problem, event.cluster, event.reason)
            case ClusterEnded():
                each = self._state.clusters.get(event.cluster)
                if each is not None and each.phase == event.outcome and each.failed:  # an operator may have skipped it
                    self._affect(event.outcome, event.cluster, event.reason, event.cause)
            case ClusterSkipped() if not event.by:
                each = self._state.clusters.get(event.cluster)
                if each is not None and each.phase == "skipped":
                    self._affect("skipped", event.cluster, event.reason)

    def _starting(self, name: str, before: CampaignState) -> None:
        stage = self._fleet.stage_of.get(name)
        if stage is None:
            return
        members = self._fleet.members[stage.name]
        if any(_of(before, each.name).attempt for each in members):
            return
        most = stage.max_concurrency.at_once(len(members))
        text = f"stage {stage.name} has started: {counted(len(members), 'cluster')}, {most} at a time"
        self._stages[stage.name] = self._message("start", text, Stage=stage.name)

    def _affect(self, kind: str, name: str, reason: str, cause: str = "") -> None:
        affected = _Affected(name, reason or "no reason is known", cause or cause_of("", reason, name))
        self._affected.setdefault(kind, {})[name] = affected

    def _waiting(self, decision: Decision) -> Iterator[tuple[str, Wait | None]]:
        """The stages that wait for an operator, with their waits; None: for an approval."""
        for stage in self._fleet.stages:
            wait = decision.stages.get(stage.name)
            if wait is not None and wait.person:
                yield stage.name, None if stage.approval and stage.name not in self._state.approved else wait

    def _is_done(self, stage: Stage, decision: Decision, told: Told) -> bool:
        """A pause stops nothing that is done, although every stage waits then; a cluster that runs again does."""
        if stage.name not in decision.stages:
            return True
        left = (_of(self._state, each.name) for each in self._fleet.members[stage.name])
        return stage.name in told.done and not any(
            each.phase in ("waiting", "running") or each.retried for each in left
        )

    def _stopped(self, decision: Decision, told: Told) -> str:
        """Its names and times change all the time, so that only its kind tells whether it is news."""
        if self._state.paused is not None:
            return told.stopped
        if not decision.stop:
            return ""
        cluster, gate = failed_gate(self._fleet, self._state)
        if decision.stop == gate:  # no other message names the cluster
            return f"gate of {cluster}"
        return "limit" if decision.stop == overdrawn(self._fleet, self._state) else "other"

    def _affected_first_in(self, stage: Stage) -> Iterator[Message]:
        """The messages about clusters, of which the first one is in this stage: that has begun, and isn't done."""
        for kind in _KINDS:
            mine = self._affected.get(kind, {})
            affected = [mine[each.name] for each in self._fleet.clusters if each.name in mine]
            if affected and self._fleet.stage_of[affected[0].name] is stage:
                yield self._clusters(kind, affected)

    def _clusters(self, kind: str, affected: Sequence[_Affected]) -> Message:
        topic, one, many, remedy = _KINDS[kind]
        groups: dict[str, list[_Affected]] = {}
        for each in affected:
            groups.setdefault(each.cause, []).append(each)
        ordered = sorted(groups.values(), key=lambda group: -len(group))
        names = [each.name for each in affected]
        who = f"cluster {names[0]} {one}" if len(names) == 1 else f"{counted(len(names), 'cluster')} {many}"
        if len(ordered) == 1:
            why = affected[0].reason
            who += f" ({first_few(names)})" if len(names) > 1 else ""
        else:
            shown = [
                f"{first_few([each.name for each in group])}: {_short(group[0].reason)}" for group in ordered[:_CAUSES]
            ]
            more = sum(map(len, ordered[_CAUSES:]))
            why = "; ".join([*shown, *([f"{more} more, for other reasons"] if more else [])])
        stages = ", ".join(dict.fromkeys(self._fleet.stage_of[name].name for name in names))
        counts = {"Stage": stages, "Clusters": first_few(names), "Count": str(len(names)), "Remedy": remedy}
        return self._message(topic, f"{who}: {why}", **counts)

    def _approval(self, stage: Stage) -> Message:
        text = f"stage {stage.name} waits for an approval: `upgrader fleet approve {stage.name} --reason WHY`"
        return self._message("approval", text, Stage=stage.name)

    def _done(self, stage: Stage) -> Message:
        counts = _counts([_of(self._state, each.name) for each in self._fleet.members[stage.name]])
        text = f"stage {stage.name} is done{', and has soaked' if stage.soaks else ''}: {counts}"
        return self._message("end", text, Stage=stage.name)

    def _ending(self) -> Message:
        clusters = tuple(self._state.clusters.values())
        failed = [each for each in clusters if each.failed]
        text = f"campaign {self._state.campaign} ({self._fleet.goal}) is done: {_counts(clusters)}"
        if failed:
            text += f"; failed: {first_few([each.name for each in failed])}"
        told = self._message("end", text, Outcome="failed" if failed else "succeeded", Remedy=_RETRY if failed else "")
        mild = all(each.phase == "rolled-back" for each in failed)
        return replace(told, colour="danger" if not mild else "warning" if failed else "good")

    def _message(self, topic: Topic, text: str, **fields: str) -> Message:
        known = {"Campaign": self._state.campaign, "Target": str(self._state.target or ""), **fields}
        return Message(topic, text, COLOURS.get(topic, Message.colour), known)


def _of(state: CampaignState, name: str) -> ClusterState:
    return state.clusters.get(name) or ClusterState(name)


def _counts(clusters: Sequence[ClusterState]) -> str:
    """`95 succeeded, 2 rolled-back`."""
    found = Counter(each.phase for each in clusters)
    return ", ".join(f"{found[phase]} {phase}" for phase in _PHASES if found[phase])


def _short(text: str) -> str:
    """The beginning of a reason; its secrets are masked first, as half of one would not be known."""
    line = first_line(printable(text))
    return line if len(line) <= _CAUSE_CHARACTERS else f"{line[:_CAUSE_CHARACTERS]} …"
