"""What an agent on a load balancer does next with the servers of a node, by the Node's annotations (see `detach`).

That the agent has begun is on the Node, too, before the first server is drained: `detaching`. So nothing has to be
remembered: whichever process comes next knows which drained servers are its own to bring back, and leaves those that an
administrator has drained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from upgrader.guard.core.detach import ATTACHED, DETACHED, DETACHMENT
from upgrader.guard.core.times import timestamp

__all__ = ["DETACHING", "Server", "Turn", "concerned", "turn"]

DETACHING = "node-detacher.variant.run/detaching"
"""Of a node whose servers the agent drains, or has drained."""


@dataclass(frozen=True)
class Server:
    """A node's server in one backend, as the load balancer has it."""

    name: str
    """For messages: where it is."""
    drained: bool
    """It gets no new sessions."""
    disabled: bool
    """Somebody has put it into maintenance: it is out, and nobody's but theirs to bring back."""
    sessions: int
    good: bool
    """It is up by its last check, or has none."""
    check: str = ""
    """The result of that check."""
    last: bool = False
    """It serves, and no other server of its backend does: without it, nobody would answer. Where that is the API's load
    balancer, neither the agent nor who asked would reach the API any more, to have it back.
    """


@dataclass(frozen=True)
class Turn:
    """What to do: servers to change (by position), then annotations of the Node (None: taken off)."""

    drain: tuple[int, ...] = ()
    ready: tuple[int, ...] = ()
    patch: Mapping[str, str | None] = field(default_factory=dict)
    waits_for: str = ""


def concerned(annotations: Mapping[str, str]) -> bool:
    """Whether there may be anything to do with a node."""
    return not annotations.keys().isdisjoint((DETACHMENT, DETACHING, DETACHED))


def turn(
    annotations: Mapping[str, str], servers: Sequence[Server], out_for: float | None, grace: float, now: float
) -> Turn:
    """The next one. `out_for`: for how many seconds this process has seen all of them out; None: they are not.

    `grace`: how long sessions have to end; `now`: the time that is written. A node without a server here is never
    answered for: another load balancer's agent may be.
    """
    if not servers:
        return Turn(waits_for="a server of that name")
    if DETACHMENT in annotations:
        return _out(annotations, servers, out_for, grace, now)
    return _back(servers, now) if concerned(annotations) else Turn()


def _out(
    annotations: Mapping[str, str], servers: Sequence[Server], out_for: float | None, grace: float, now: float
) -> Turn:
    if DETACHING not in annotations:
        old = {ATTACHED: None} if ATTACHED in annotations else {}
        return Turn(patch={DETACHING: "true", **old})
    serving = tuple(number for number, each in enumerate(servers) if not (each.drained or each.disabled))
    if last := [servers[number].name for number in serving if servers[number].last]:
        return Turn(waits_for=f"another server that serves beside {', '.join(last)}")
    if serving:
        return Turn(drain=serving)
    if DETACHED in annotations:
        return Turn()
    if any(each.sessions for each in servers) and (out_for is None or out_for < grace):
        return Turn(waits_for="its sessions to end")
    return Turn(patch={DETACHED: timestamp(now)})


def _back(servers: Sequence[Server], now: float) -> Turn:
    drained = tuple(number for number, each in enumerate(servers) if each.drained and not each.disabled)
    if drained:
        return Turn(ready=drained)
    enabled = [each for each in servers if not each.disabled]
    if not enabled:
        return Turn(waits_for="somebody to end the maintenance of its servers")
    bad = [f"{each.name}: {each.check or 'not checked yet'}" for each in enabled if not each.good]
    if bad:
        return Turn(waits_for=f"a good check of {'; '.join(bad)}")
    return Turn(patch={ATTACHED: timestamp(now), DETACHED: None, DETACHING: None})
