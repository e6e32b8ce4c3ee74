"""From facts to what is wrong, as findings, the cause first; and to what a recovery may do about it.

Layers are asked from the bottom up: clock and certificates, disks, the container runtime, the kubelet, the folder of
static pods, etcd, kube-apiserver. What a deeper cause explains is not reported as a cause of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from upgrader.model.cluster import Host
from upgrader.model.finding import Finding, Severity
from upgrader.onhost.common.tls import UNVERIFIED
from upgrader.onhost.sending.host_facts import (
    Client,
    Endpoint,
    EtcdServer,
    Examined,
    Generation,
    HostFacts,
    Unit,
    Unknown,
)
from upgrader.recover.diagnosis.causes.apiserver_causes import active_standby, apiserver, checkpoints
from upgrader.recover.diagnosis.causes.cause import Cause
from upgrader.recover.diagnosis.causes.etcd_causes import etcd
from upgrader.recover.diagnosis.causes.machine_causes import clock_and_certificates, disks, manifests, services
from upgrader.recover.diagnosis.wrong_api import ApiSeen, known_to_accept, refused_clients, right_pods, wrong_finding

__all__ = ["ApiSeen", "Controller", "Diagnosis", "diagnose"]

_BELOW = ("certificates.", "clock.", "disk.", "etcd.", "runtime.")
"""What kube-apiserver stands on: where that fails, what it answers proves nothing against itself."""

_TRUST = ("certificates.", "clock.")
"""What makes a right kube-apiserver refuse right credentials."""

_ORDER: tuple[Severity, ...] = ("error", "unknown", "warning", "info")


@dataclass(frozen=True)
class Controller:
    """One controller's part.

    `serves`: whether its kube-apiserver answers there, None when unknown. `start`: units to be started, in this
    order. `active`: the generation of kube-apiserver that is in place already. `restore`: the one that would be put
    in place; None when there is nothing to put, or no need. `blocked`: why a recovery can't help this controller
    before manual action; empty when it can. `wrong`: whether an instance of it is known to be wrong, though it serves;
    `wrong_pods`: the UIDs of their pods, as far as they are known; `right_pods`: of those that serve everybody beside
    them.
    """

    host: Host
    facts: HostFacts | None
    findings: tuple[Finding, ...]
    serves: bool | None = None
    start: tuple[str, ...] = ()
    active: int | None = None
    restore: Generation | None = None
    blocked: str = ""
    wrong: bool = False
    wrong_pods: frozenset[str] = frozenset()
    right_pods: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Diagnosis:
    """All of it. `findings`: every controller's, the cause first. `wrong`: what an API server that answers does wrong;
    empty where nothing is known against it.
    """

    api: ApiSeen
    controllers: tuple[Controller, ...]
    findings: tuple[Finding, ...]
    wrong: str = ""
    release: str = ""
    """The Helm release whose pods run on the controllers; "" where kubeadm's own do, or that isn't known."""

    @property
    def healthy(self) -> bool:
        """Whether nothing has to be done: the API answers, and no finding is an error."""
        return self.api.answers and not any(f.severity == "error" for f in self.findings)

    @property
    def serves(self) -> bool:
        """Whether the API answers, refuses nothing that a recovery needs, and nothing is known against it."""
        return self.api.answers and not self.wrong and not self.api.refuses

    @property
    def blames_credentials(self) -> bool:
        """Whether the API server refuses the caller's credentials, but accepts the cluster's own on every controller.

        What isn't known counts against it: the 401 may be of a proxy before an API server that is down, or of the one
        controller that can't be examined. Nor does it matter whether something below explains who else is refused.
        """
        explained = any(f.severity == "error" and f.id.startswith(_TRUST) for f in self.findings)
        accepted = [c.facts is not None and known_to_accept(c.facts) for c in self.controllers]
        refused = self.api.answers and self.api.credentials and not self.wrong
        return refused and not explained and bool(accepted) and all(accepted)

    @property
    def blocked(self) -> str:
        """Why manual action is required; empty while one controller may be recovered."""
        if self.api.answers and self.api.refuses and not self.wrong:
            return self.api.refuses
        reasons = [c.blocked for c in self.controllers]
        return reasons[0] if reasons and all(reasons) else ""


def diagnose(examined: Sequence[Examined], api: ApiSeen, *, all_controllers: bool = True) -> Diagnosis:
    """Pure: the same facts give the same findings. `all_controllers`: whether no other one has an API server."""
    servers = [e.facts.etcd.server for e in examined if e.facts is not None]
    answering = frozenset(s.id for s in servers if isinstance(s, EtcdServer) and s.id)
    controllers = tuple(_controller(e, answering) for e in examined)
    findings = [f for c in controllers for f in c.findings]
    if api.credentials and all_controllers and controllers and all(map(_is_silent, controllers)):
        # As of a proxy that asks the API server for each login: what refuses is not what has to be restored.
        api = ApiSeen(answers=False, answer=api.answer)
    if not api.answers and controllers and all(c.serves for c in controllers):
        findings.append(_between(api))
    refused = _refused_by(controllers, api)
    everywhere = any(map(_explained, controllers))
    wrong = wrong_finding(replace(api, refuses="") if everywhere else api, refused)
    if wrong is not None:
        findings.append(wrong)
        blamed = frozenset(refused) or _newest(controllers)
        controllers = tuple(_with_evidence(c, refused, blamed) for c in controllers)
    elif api.answers and api.refuses:
        findings.append(_refused(api))
    # Stable: within one severity the deeper layers of a controller stay before the others.
    findings.sort(key=lambda f: _ORDER.index(f.severity))
    return Diagnosis(api, controllers, tuple(findings), wrong.title if wrong else "")


def _is_silent(controller: Controller) -> bool:
    """Whether nothing on it can have answered as an API server; one that refuses, or isn't ready, can, and so can one
    that the controller itself doesn't trust.
    """
    facts = controller.facts
    if facts is None or not isinstance(facts.api, Endpoint):
        return False
    answered = facts.api.answers or facts.api.said.startswith("HTTP ") or UNVERIFIED in facts.api.said
    return not answered and (isinstance(facts.clients, Unknown) or not facts.clients)


def _newest(controllers: Sequence[Controller]) -> frozenset[str]:
    """The controllers with an instance of the template that the youngest of all has: what is seen from outside tells no
    instance from another, and the others served before the change.
    """
    known = {c.host.name: c.facts for c in controllers if c.facts is not None}
    own = [
        (name, facts.began(item), item.template)
        for name, facts in known.items()
        for item in facts.instances()
        if item.own
    ]
    if not own:  # standby pods alone
        return frozenset(known)
    _, _, youngest = max(own, key=lambda each: each[1])
    return frozenset(name for name, _, template in own if template == youngest)


def _with_evidence(
    controller: Controller, refused: Mapping[str, tuple[Client, ...]], blamed: Collection[str]
) -> Controller:
    clients = refused.get(controller.host.name, ())
    return replace(
        controller,
        wrong=controller.host.name in blamed,
        wrong_pods=frozenset(client.pod for client in clients if client.pod),
        # Without a client's evidence, what is wrong is seen from outside, and no instance is known to be right.
        right_pods=right_pods(controller.facts, clients) if clients and controller.facts else frozenset(),
    )


def _refused_by(controllers: Sequence[Controller], api: ApiSeen) -> dict[str, tuple[Client, ...]]:
    """The clients that are refused on each controller, where nothing below kube-apiserver explains it."""
    known = [c for c in controllers if c.facts is not None and not _explained(c)]
    credentials = bool(api.refuses) and api.credentials
    found = {c.host.name: refused_clients(c.facts, credentials=credentials) for c in known if c.facts is not None}
    return {name: clients for name, clients in found.items() if clients}


def _explained(controller: Controller) -> bool:
    return any(f.severity == "error" and f.id.startswith(_BELOW) for f in controller.findings)


def _refused(api: ApiSeen) -> Finding:
    """What is refused may be the caller's own fault: nothing is known against kube-apiserver itself."""
    title = f"the API server rejects requests that a recovery needs: {api.refuses}"
    if not api.credentials:
        return Finding("api.refuses", "error", title, "", "Fix the errors above first.")
    why = "kube-apiserver seems to accept the cluster's own clients: your credentials are probably at fault."
    remedy = "Use a new kubeconfig (on a controller: /etc/kubernetes/admin.conf), or grant this user more permissions."
    return Finding("api.credentials", "error", title, why, remedy)


def _between(api: ApiSeen) -> Finding:
    title = "kube-apiserver answers on every controller, but the API can't be reached from here"
    remedy = "Check the load balancer, the network in between, and the kubeconfig's server and CA."
    return Finding("api.unreachable", "error", title, api.answer, remedy)


def _controller(examined: Examined, answering: frozenset[str]) -> Controller:
    name, facts = examined.host.name, examined.facts
    if facts is None:
        title = f"{name} can't be examined: {examined.error}"
        found = Finding("host.unreachable", "error", title, remedy=examined.remedy)
        return Controller(examined.host, None, (found,), blocked=title)
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
        start=tuple(
            unit.name
            for unit in (facts.containerd, facts.etcd_service, facts.kubelet)
            if isinstance(unit, Unit) and _startable(unit)
        ),
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
