"""The pure core of a recovery: from what the controllers report, and what was tried already, to what to do next.

Level-triggered, like the pod-checkpointer: it is computed again after every examination, so that a recovery may be
stopped at any moment and started again. Both write the same files by the same rules, so it doesn't matter which of
them acts first:

R1. *At most one standby pod.* A workload has one manifest path on a controller: a new one replaces the last.
R2. *A standby pod gets its time*, whichever of the two started it. If it doesn't serve in that time, although its etcd
    is healthy, the next older intact generation replaces it. Without etcd no kube-apiserver can start, and the
    generation isn't the cause.
R3. *An instance that starts by itself isn't touched*: one that has just started gets the same time.
R4. *One controller at a time.* One kube-apiserver is enough for an API; with it the others get their own pods back.
R5. *A generation that is known to fail isn't started*: neither one that failed here, nor one that the pod-checkpointer
    marked. If none is left, the operator is informed. The pod-checkpointer itself starts the newest as a last resort.
R6. *A wrong instance is replaced before it is stopped.* An API server that answers and refuses its clients is worse
    than none. The standby pod of a generation that wasn't made from it starts beside it, and only then the wrong
    instance is stopped; if the only evidence is from the operator's machine, not if all new connections are
    refused in the same way. The kubelet restarts it until the API tells it that the pod is gone. One controller at a
    time, and only those with evidence.
R7. *Unknown is no reason to act.* If it isn't known whether kube-apiserver serves, nothing is started; an instance of
    unknown age counts as just started.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from upgrader.model.cluster import Host
from upgrader.onhost.node.disk_layout import KUBE_APISERVER
from upgrader.onhost.node.generation_choice import restorable
from upgrader.onhost.sending.host_facts import Container, Endpoint, EtcdServer, Generation, HostFacts, Unit, Unknown
from upgrader.recover.diagnosis.diagnose import Controller

__all__ = ["Action", "Attempts", "StartStandby", "StartUnit", "StopInstances", "next_actions", "remember"]

STANDBY_SECONDS = 45.0
"""How long a standby pod may take to serve: 3 to 15 s are usual, but a controller that has just booted is busy."""

PARENT_SECONDS = 20.0
"""How long an instance that has just started may take to serve before a standby pod is put beside it."""

BESIDE_SECONDS = 20.0
"""How long a standby pod may take to serve beside a wrong instance: an older chart's can't, as the port is taken."""

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
        captured = f", captured at {self.generation.captured_at}" if self.generation.captured_at else ""
        instead = f" instead of {self.instead_of}, which does not start" if self.instead_of is not None else ""
        return f"{self.host.name}: start kube-apiserver from its generation {self.generation.number}{captured}{instead}"


@dataclass(frozen=True)
class StopInstances:
    """Stop pods of kube-apiserver that answer wrongly. `pods`: UID → name.

    `compared`: whether it is known that their replacement is better, or can't be known before they are stopped. Else
    the API is asked first: new connections meet both.
    """

    host: Host
    pods: Mapping[str, str]
    compared: bool = True

    def __str__(self) -> str:
        return f"{self.host.name}: stop {', '.join(sorted(self.pods.values()))}, which does not work correctly"


Action = StartUnit | StartStandby | StopInstances


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
    controllers: Iterable[Controller], attempts: Attempts, now: float, *, api_answers: bool, replace: bool = False
) -> tuple[Action, ...]:
    """What to do now; empty when there is nothing to do but to wait. Units that are stopped are started in any case.

    `replace`: whether wrong instances are replaced, one controller after the other.
    """
    actions: list[Action] = []
    replacing = False
    for controller in controllers:
        if controller.facts is None:
            continue
        actions += _starts(controller, attempts, now)
        if controller.wrong:
            replaced = _replace(controller, controller.facts, attempts, now) if replace and not replacing else None
            actions += [replaced] if replaced else []
            replacing = replacing or replaced is not None or (controller.active is not None and not _right(controller))
            continue
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
        elif isinstance(action, StartUnit):
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


def _replace(controller: Controller, facts: HostFacts, attempts: Attempts, now: float) -> Action | None:
    """The next part of replacing a wrong instance; None where there is nothing to replace it with, or no need to."""
    host, workload = controller.host, facts.workload()
    if workload is None or isinstance(facts.containers, Unknown):
        return None
    ours = [item for item in facts.containers if item.namespace == KUBE_APISERVER.namespace]
    running = facts.instances()
    if _right(controller):
        return None
    own = [item for item in running if item.own]
    wrong = {item.uid: item.pod for item in own if item.uid in controller.wrong_pods}
    if not controller.wrong_pods:
        wrong = _newest_pod(facts, [item for item in own if item.uid not in controller.right_pods])
    templates = {item.template for item in running if item.uid in wrong and item.template}
    if workload.active is None:
        chosen = _other_generation(workload.generations, set(wrong), templates, attempts.tried(host))
        return StartStandby(host, chosen, workload.active_path) if wrong and chosen else None
    active = workload.active.number
    waited = now - attempts.standbys.get((host.name, active), now) if active is not None else 0.0
    refused_too = any(item.uid in controller.wrong_pods for item in running if item.standby)
    standby = any(item.standby for item in (running if _private(facts) else ours))
    if wrong and standby and not refused_too and _replaced(facts, len(running), len(wrong), waited):
        return StopInstances(host, wrong, compared=bool(controller.wrong_pods) or not _private(facts))
    if waited < STANDBY_SECONDS:
        return None
    # It is wrong as well, as it was made of the same mistake; or it doesn't start.
    tried = {*attempts.tried(host), *filter(None, [active])}
    chosen = _other_generation(workload.generations, set(wrong), templates, tried)
    return StartStandby(host, chosen, workload.active_path, instead_of=active) if chosen else None


def _replaced(facts: HostFacts, running: int, wrong: int, waited: float) -> bool:
    """Whether the standby pod serves beside the wrong instances, or will as soon as the port is free."""
    if not isinstance(facts.kubelet, Unit) or not facts.kubelet.running or not isinstance(facts.api, Endpoint):
        return False
    if not _private(facts):
        return waited >= BESIDE_SECONDS
    # An instance answers at its private address a second or two before its HAProxy listens for clients.
    # One that is too slow to answer isn't counted among them.
    return facts.api.instances >= running - wrong and facts.api.listeners > wrong


def _private(facts: HostFacts) -> bool:
    """Whether instances have private addresses, as the chart's have: then several serve beside one another."""
    return isinstance(facts.api, Endpoint) and facts.api.private > 0


def _right(controller: Controller) -> bool:
    """Whether only the standby pod is wrong: it goes by itself, as the workload's own pod serves beside it."""
    facts = controller.facts
    if facts is None or isinstance(facts.containers, Unknown):
        return False
    own = {item.uid for item in facts.containers if not item.standby and item.state == "running"}
    return bool(own & controller.right_pods) and not own & controller.wrong_pods and bool(controller.wrong_pods)


def _newest_pod(facts: HostFacts, running: Collection[Container]) -> dict[str, str]:
    """UID → name of the newest pod among these: one that it replaced may still be ending, and was right."""
    begun = {item.uid: facts.began(item) for item in running}
    return {item.uid: item.pod for item in running if begun[item.uid] == max(begun.values())}


def _other_generation(
    generations: Iterable[Generation], pods: Collection[str], templates: Collection[str], tried: Collection[int]
) -> Generation | None:
    """The best that none of these pods is the origin of, of another template if there is one."""
    others = [item for item in generations if item.pod not in pods]
    return restorable([g for g in others if g.template not in templates], tried) or restorable(others, tried)


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
