"""What an agent on a load balancer does next with the servers of a node, by the Node's annotations (see `detach`).

That the agent has begun is on the Node, too, before the first server is drained: `detaching`. So nothing has to be
remembered: whichever process comes next knows which drained servers are its own to bring back, and leaves those that an
administrator has drained.

HAProxies on several machines, of which each takes over the address, have an agent each. A node is out once it is out of
all, and in once it is in all: so each agent has its own mark on the Node, with the time at which its servers were out,
and the last agent writes the answer. A mark says so no more before the first server is brought back, so that no agent
takes another one's old word for the answer to a new question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from upgrader.contract.detach import ATTACHED, DETACHED, DETACHMENT
from upgrader.contract.times import seconds_of, timestamp

__all__ = ["ALONE", "DETACHING", "Agents", "Server", "Turn", "concerned", "turn"]

DETACHING = "node-detacher.variant.run/detaching"
"""Of a node whose servers the agent drains, or has drained."""
_BEGUN, _NONE = "true", "none"
"""What a mark says until the servers are out; and of a node without a server there."""


@dataclass(frozen=True)
class Agents:
    """Those of one load balancer: this one's name, and the others'. Without names it is alone."""

    name: str = ""
    others: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """The annotation with which this one says how far it is."""
        return _mark(self.name) if self.name else DETACHING

    def not_out(self, annotations: Mapping[str, str]) -> list[str]:
        """The others that haven't said that the node is out."""
        told = {name: annotations.get(_mark(name), "") for name in self.others}
        return [name for name, text in told.items() if text != _NONE and seconds_of(text) is None]

    def not_in(self, annotations: Mapping[str, str]) -> list[str]:
        """The others that have begun, and not brought the node back."""
        return [name for name in self.others if _mark(name) in annotations]


def _mark(name: str) -> str:
    return f"{DETACHING}.{name}"


ALONE = Agents()


@dataclass(frozen=True)
class Server:
    """A node's server in one backend, as the load balancer has it."""

    name: str
    """For messages: where it is."""
    drained: bool
    """It gets no new sessions."""
    disabled: bool
    """An administrator has put it into maintenance: it is out, and only an administrator may end that."""
    sessions: int
    good: bool
    """It is up by its last check, or has none."""
    check: str = ""
    """The result of that check."""
    last: bool = False
    """It is the only server of its backend that is up: without it, the backend would not answer. Where that is the
    API's load balancer, neither the agent nor who asked would reach the API any more, to have it back.
    """


@dataclass(frozen=True)
class Turn:
    """What to do: servers to change (by position), then annotations of the Node (None: taken off)."""

    drain: tuple[int, ...] = ()
    ready: tuple[int, ...] = ()
    patch: Mapping[str, str | None] = field(default_factory=dict)
    waits_for: str = ""


def concerned(annotations: Mapping[str, str], agents: Agents = ALONE) -> bool:
    """Whether there may be anything to do with a node."""
    keys = (DETACHMENT, agents.mark, *(() if agents.name else (DETACHED,)))
    return not annotations.keys().isdisjoint(keys)


def turn(
    annotations: Mapping[str, str],
    servers: Sequence[Server],
    out_for: float | None,
    grace: float,
    now: float,
    agents: Agents = ALONE,
) -> Turn:
    """The next one. `out_for`: for how many seconds this process has seen all of them out; None: they are not.

    `grace`: how long sessions have to end; `now`: the time that is written. A node without a server here is never
    answered for: another load balancer's agent may be.
    """
    if not servers and not agents.name:
        return Turn(waits_for="a server with the node's name")
    if DETACHMENT in annotations:
        return _out(annotations, servers, out_for, grace, now, agents)
    return _back(annotations, servers, now, agents) if concerned(annotations, agents) else Turn()


def _out(
    annotations: Mapping[str, str],
    servers: Sequence[Server],
    out_for: float | None,
    grace: float,
    now: float,
    agents: Agents,
) -> Turn:
    if agents.mark not in annotations:
        old = {ATTACHED: None} if ATTACHED in annotations else {}
        return Turn(patch={agents.mark: _BEGUN, **old})
    serving = tuple(number for number, each in enumerate(servers) if not (each.drained or each.disabled))
    if last := [servers[number].name for number in serving if servers[number].last]:
        return Turn(waits_for=f"another server to be up besides {', '.join(last)}")
    if serving:
        return Turn(drain=serving)
    if DETACHED in annotations:
        return Turn()
    if any(each.sessions for each in servers) and (out_for is None or out_for < grace):
        return Turn(waits_for="its sessions to end")
    return _answer_of_all(annotations, servers, now, agents) if agents.name else Turn(patch={DETACHED: timestamp(now)})


def _answer_of_all(annotations: Mapping[str, str], servers: Sequence[Server], now: float, agents: Agents) -> Turn:
    """Its own word, and with the last one's the answer."""
    own = timestamp(now) if servers else _NONE
    patch: dict[str, str | None] = {agents.mark: own} if annotations[agents.mark] == _BEGUN else {}
    waits_for = agents.not_out(annotations)
    anywhere = bool(servers) or any(annotations.get(_mark(name)) != _NONE for name in agents.others)
    if not waits_for and anywhere:
        patch[DETACHED] = timestamp(now)
    if patch:
        return Turn(patch=patch)
    return Turn(waits_for=f"the agent of {', '.join(waits_for)}" if waits_for else "a server with the node's name")


def _back(annotations: Mapping[str, str], servers: Sequence[Server], now: float, agents: Agents) -> Turn:
    if agents.name and annotations[agents.mark] != _BEGUN:
        return Turn(patch={agents.mark: _BEGUN})
    drained = tuple(number for number, each in enumerate(servers) if each.drained and not each.disabled)
    if drained:
        return Turn(ready=drained)
    enabled = [each for each in servers if not each.disabled]
    if servers and not enabled:
        return Turn(waits_for="the maintenance of its servers to end")
    bad = [f"{each.name}: {each.check or 'not checked yet'}" for each in enabled if not each.good]
    if bad:
        return Turn(waits_for=f"a successful check of {'; '.join(bad)}")
    answer = {} if agents.not_in(annotations) else {ATTACHED: timestamp(now), DETACHED: None}
    return Turn(patch={**answer, agents.mark: None})
