"""The pure core of a recovery: from what the controllers report, and what was tried already, to what to do next.

Level-triggered, as the pod-checkpointer is: it is computed again after every examination, so that a recovery may be
stopped at any moment and started again. Both write the same files by the same rules, so it doesn't matter who comes
first:

R1. *At most one standby pod.* A workload has one manifest path on a controller: a new one replaces the last.
R2. *A standby pod that is in place gets its time*, whichever of the two put it there. Only where it doesn't serve in
    that time, though its etcd is healthy, is the next older intact generation put in its place: without etcd no
    kube-apiserver can start, and no generation is to blame.
R3. *What starts by itself is left alone*: an instance that has started a moment ago gets the same chance.
R4. *One controller after the other.* One kube-apiserver is an API; with it the others get their own pods back.
R5. *What is known to fail isn't started*: neither what was tried here in vain, nor what the pod-checkpointer marked.
    Where that leaves none, the operator is informed. The pod-checkpointer itself starts the newest as a last resort.
R6. *Unknown is no reason to act.* Where it isn't known whether kube-apiserver serves, nothing is put in place; where it
    isn't known what runs, it is taken to have started just now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from upgrader.model.cluster import Host
from upgrader.node.generation_choice import restorable
from upgrader.recover.diagnosis.diagnose import Controller
from upgrader.recover.facts.host_facts import EtcdServer, Generation, HostFacts, Unknown

__all__ = ["Action", "Attempts", "StartStandby", "StartUnit", "next_actions", "remember"]

STANDBY_SECONDS = 45.0
"""How long a standby pod may take to serve: 3 to 15 s are usual, but a controller that has just booted is busy."""

PARENT_SECONDS = 20.0
"""How long an instance that has just started may take to serve before a standby pod is put beside it."""

STAGGER_SECONDS = 20.0
"""How long one controller's standby pod is waited for before the next controller gets one as well."""

UNIT_SECONDS = 30.0
UNIT_TRIES = 3


@dataclass(frozen=True)
class StartUnit:
    """Start a systemd unit that doesn't run."""

    host: Host
    unit: str

    def __str__(self) -> str:
        return f"{self.host.name}: start {self.unit}"


@dataclass(frozen=True)
class StartStandby:
    """Put a generation's manifest where the kubelet starts it. `instead_of`: the one there, which doesn't serve."""

    host: Host
    generation: Generation
    path: str
    instead_of: int | None = None

    def __str__(self) -> str:
        captured = f", kept on {self.generation.captured_at}" if self.generation.captured_at else ""
        instead = f" instead of {self.instead_of}, which does not start" if self.instead_of is not None else ""
        return f"{self.host.name}: start kube-apiserver from its generation {self.generation.number}{captured}{instead}"


Action = StartUnit | StartStandby


@dataclass(frozen=True)
class Attempts:
    """What was tried, and since when (monotonic seconds). Keys: (host, generation), (host, unit), and the host that was
    reached.
    """

    standbys: Mapping[tuple[str, int], float] = field(default_factory=lambda: MappingProxyType({}))
    units: Mapping[tuple[str, str], tuple[float, ...]] = field(default_factory=lambda: MappingProxyType({}))
    reached: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def tried(self, host: Host) -> set[int]:
        """The generations that have been in place on a host since this recovery started."""
        return {number for name, number in self.standbys if name == host.name}


def next_actions(
    controllers: Iterable[Controller], attempts: Attempts, now: float, *, api_answers: bool
) -> tuple[Action, ...]:
    """What to do now; empty when there is nothing to do but to wait. Units that are stopped are started in any case."""
    actions: list[Action] = []
    for controller in controllers:
        if controller.facts is None:
            continue
        actions += _starts(controller, attempts, now)
        if api_answers or controller.serves is not False or controller.blocked or "containerd" in controller.start:
            continue
        others = (since for (name, _), since in attempts.standbys.items() if name != controller.host.name)
        if (
            any(isinstance(action, StartStandby) for action in actions)
            or now - max(others, default=-1e9) < STAGGER_SECONDS
        ):
            continue
        standby = _standby(controller, controller.facts, attempts, now)
        if standby is not None:
            actions.append(standby)
    return tuple(actions)


def remember(attempts: Attempts, controllers: Iterable[Controller], done: Iterable[Action], now: float) -> Attempts:
    """The attempts after an examination and what was done about it: also the standby pods that the pod-checkpointer
    put in place count.
    """
    standbys, units, reached = dict(attempts.standbys), dict(attempts.units), dict(attempts.reached)
    for controller in controllers:
        if controller.facts is not None:
            reached.setdefault(controller.host.name, now)
        if controller.active is not None:
            standbys.setdefault((controller.host.name, controller.active), now)
    for action in done:
        if isinstance(action, StartStandby):
            standbys[action.host.name, action.generation.number] = now
        else:
            key = (action.host.name, action.unit)
            units[key] = (*units.get(key, ()), now)
    return Attempts(standbys, units, reached)


def _starts(controller: Controller, attempts: Attempts, now: float) -> list[Action]:
    starts: list[Action] = []
    for unit in controller.start:
        times = attempts.units.get((controller.host.name, unit), ())
        if len(times) < UNIT_TRIES and (not times or now - times[-1] >= UNIT_SECONDS):
            starts.append(StartUnit(controller.host, unit))
    return starts


def _standby(controller: Controller, facts: HostFacts, attempts: Attempts, now: float) -> StartStandby | None:
    host, workload = controller.host, facts.workload()
    if workload is None:
        return None
    active = workload.active.number if workload.active else None
    sound = active is not None and any(g.number == active and g.intact for g in workload.generations)
    if active is None or not sound:
        if workload.active is None and _just_started(facts, now - attempts.reached.get(host.name, now)):
            return None
        chosen = restorable(workload.generations, attempts.tried(host))
        return StartStandby(host, chosen, workload.active_path) if chosen else None
    if now - attempts.standbys.get((host.name, active), now) < STANDBY_SECONDS or not _etcd_healthy(facts):
        return None
    chosen = restorable(workload.generations, attempts.tried(host) | {active})
    return StartStandby(host, chosen, workload.active_path, instead_of=active) if chosen else None


def _just_started(facts: HostFacts, reached_seconds: float) -> bool:
    """Whether an instance started a moment ago, as far as can be known; else since this host was first examined."""
    if isinstance(facts.containers, Unknown):
        return reached_seconds < PARENT_SECONDS
    return any(
        container.state == "running"
        and container.started is not None
        # A clock that was set back meanwhile gives a negative age, which proves nothing.
        and 0 <= facts.taken - container.started < PARENT_SECONDS
        for container in facts.containers
    )


def _etcd_healthy(facts: HostFacts) -> bool:
    return isinstance(facts.etcd.server, EtcdServer) and facts.etcd.server.healthy
