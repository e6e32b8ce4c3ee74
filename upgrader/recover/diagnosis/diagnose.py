"""From facts to what is wrong, as findings, the cause first; and to what a recovery may do about it.

Layers are asked from the bottom up: clock and certificates, disks, the container runtime, the kubelet, the folder of
static pods, etcd, kube-apiserver. What a deeper cause explains is not reported as a cause of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from upgrader.model.cluster import Host
from upgrader.model.finding import Finding, Severity
from upgrader.recover.diagnosis.causes.apiserver_causes import active_standby, apiserver, checkpoints
from upgrader.recover.diagnosis.causes.cause import Cause
from upgrader.recover.diagnosis.causes.etcd_causes import etcd
from upgrader.recover.diagnosis.causes.machine_causes import clock_and_certificates, disks, manifests, services
from upgrader.recover.facts.host_facts import Endpoint, EtcdServer, Examined, Generation, HostFacts, Unit

__all__ = ["ApiSeen", "Controller", "Diagnosis", "diagnose"]

_ORDER: tuple[Severity, ...] = ("error", "unknown", "warning", "info")


@dataclass(frozen=True)
class ApiSeen:
    """Whether the API answered, asked from here; `answer`: what it answered, or why it didn't."""

    answers: bool
    answer: str = ""


@dataclass(frozen=True)
class Controller:
    """One controller's part.

    `serves`: whether its kube-apiserver answers there, None when unknown. `start`: units to be started, in this
    order. `active`: the generation of kube-apiserver that is in place already. `restore`: the one that would be put
    in place; None when there is nothing to put, or no need. `blocked`: why a recovery can't help this controller
    before manual action; empty when it can.
    """

    host: Host
    facts: HostFacts | None
    findings: tuple[Finding, ...]
    serves: bool | None = None
    start: tuple[str, ...] = ()
    active: int | None = None
    restore: Generation | None = None
    blocked: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All of it. `findings`: every controller's, the cause first."""

    api: ApiSeen
    controllers: tuple[Controller, ...]
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing has to be done: the API answers, and no finding is an error."""
        return self.api.answers and not any(f.severity == "error" for f in self.findings)

    @property
    def blocked(self) -> str:
        """Why manual action is required; empty while one controller may be recovered."""
        reasons = [c.blocked for c in self.controllers]
        return reasons[0] if reasons and all(reasons) else ""


def diagnose(examined: Sequence[Examined], api: ApiSeen) -> Diagnosis:
    """Pure: the same facts give the same findings."""
    servers = [e.facts.etcd.server for e in examined if e.facts is not None]
    answering = frozenset(s.id for s in servers if isinstance(s, EtcdServer) and s.id)
    controllers = tuple(_controller(e, answering) for e in examined)
    findings = [f for c in controllers for f in c.findings]
    if not api.answers and controllers and all(c.serves for c in controllers):
        findings.append(_between(api))
    # Stable: within one severity the deeper layers of a controller stay before the others.
    findings.sort(key=lambda f: _ORDER.index(f.severity))
    return Diagnosis(api, controllers, tuple(findings))


def _between(api: ApiSeen) -> Finding:
    title = "kube-apiserver serves on every controller, but the API can't be reached from here"
    remedy = "Check the load balancer, the network in between, and the kubeconfig's server and CA."
    return Finding("api.unreachable", "error", title, api.answer, remedy)


def _controller(examined: Examined, answering: frozenset[str]) -> Controller:
    name, facts = examined.host.name, examined.facts
    if facts is None:
        title = f"{name} can't be examined: {examined.error}"
        return Controller(examined.host, None, (Finding("host.unreachable", "error", title),), blocked=title)
    serves = facts.api.answers if isinstance(facts.api, Endpoint) else None
    causes = _causes(name, facts, answering)
    workload = facts.workload()
    active = workload.active.number if workload is not None and workload.active is not None else None
    restore = workload.restorable if workload is not None and serves is False else None
    blocked = next((c.finding.title for c in causes if c.stops or (c.blocks and not serves)), "")
    return Controller(
        host=examined.host,
        facts=facts,
        findings=tuple(c.finding for c in causes),
        serves=serves,
        start=tuple(u.name for u in (facts.containerd, facts.kubelet) if isinstance(u, Unit) and _startable(u)),
        active=active,
        restore=restore if restore is None or restore.number != active else None,
        blocked=blocked,
    )


def _causes(name: str, facts: HostFacts, answering: frozenset[str]) -> list[Cause]:
    causes = [
        *clock_and_certificates(name, facts),
        *disks(name, facts),
        *services(name, facts),
        *manifests(name, facts),
    ]
    explained = any(c.explains for c in causes)
    store = list(etcd(name, facts, answering))
    # An etcd that nothing starts, or that can't write, is a consequence; one that lost its data never is.
    causes += [c for c in store if not (explained and c.finding.id == "etcd.down")]
    causes += active_standby(name, facts)
    causes += apiserver(name, facts, explained=any(c.explains for c in causes))
    return [*causes, *checkpoints(name, facts)]


def _startable(unit: Unit) -> bool:
    return not unit.running and unit.loaded == "loaded" and unit.enabled != "masked" and unit.state != "activating"
