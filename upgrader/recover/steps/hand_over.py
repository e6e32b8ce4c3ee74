"""The step that hands kube-apiserver over to its own pods: each standby pod ends once they are Ready."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from upgrader.contract.checkpoints import CHECKPOINT_OF
from upgrader.errors import StepFailed
from upgrader.gates.kubernetes_kinds import PODS
from upgrader.gates.workload_diagnosis import diagnose_workload as judge
from upgrader.gates.workload_reading import read_workload
from upgrader.model.cluster import Cluster, Host
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.model.release import RestorePoint
from upgrader.model.workload import Pod, WorkloadRef
from upgrader.onhost.node.disk_layout import KUBE_APISERVER, Layout
from upgrader.onhost.sending.host_facts import Endpoint, HostFacts, Unknown
from upgrader.ports import Clock, Helm, Hosts, Kube, Recovery
from upgrader.recover.diagnosis.diagnose import Diagnosis
from upgrader.recover.diagnosis.examiner import read_api
from upgrader.recover.restoring.host_actions import HostActions
from upgrader.recover.steps.revision_match import rendered
from upgrader.wait_and_retry import wait_until

__all__ = ["HandOverStep", "holds_port"]

_RELEASE, _NAMESPACE = KUBE_APISERVER.name, KUBE_APISERVER.namespace
_CHECKPOINTER = "app.kubernetes.io/name=pod-checkpointer"
_MANIFEST_PATH = str(Layout().manifest_path(KUBE_APISERVER))

HAND_OVER_SECONDS = 240.0
"""The pods' start, and the time for which the pod-checkpointer wants to see them Ready before it ends a standby pod (30
s).
"""

ALONE_SECONDS = 15.0
"""How long its own pod must have been Ready before a standby pod is ended by us, where no pod-checkpointer runs."""

BESIDE_SECONDS = 90.0
"""The same where one runs, and should have ended the standby pod long before."""

EXAMINE_SECONDS = 8.0
"""Pause between two examinations of the controllers after wrong instances were replaced."""

PORT_SECONDS = 90.0
"""How long the API may be unreachable while a pod that can't share the port takes it over: a kubelet starts a pod that
has failed a few times again after 10, 20 or 40 s.
"""


def holds_port(verdict: Verdict) -> bool:
    """Whether a workload fails because another process listens on its port."""
    return any("address already in use" in words for words in (verdict.reason, *verdict.details))


@dataclass(frozen=True)
class HandOverStep:
    """Waits for the workload, and for its standby pods to go; ends a standby pod itself where no pod-checkpointer
    does.

    `replaced_wrong`: whether instances that answered wrongly were stopped before. Until the Deployment's controller has
    acted on the rollback, it creates others like them, which may keep it from acting at all: they are stopped as well.
    """

    hosts: Hosts
    helm: Helm
    kube: Kube
    clock: Clock
    cluster: Cluster
    examine: Callable[[], Diagnosis]
    recovery: Recovery
    replaced_wrong: bool = False
    name: str = "hand-over"

    def summary(self) -> str:
        return "hand over from standby pods to kube-apiserver's own pods"

    def capture(self) -> None:
        """Nothing to undo: where the pods aren't Ready, the standby pods stay."""

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Nothing to undo."""

    def apply(self, note: Callable[[str], None]) -> None:
        workload = rendered(self.helm.manifest(_RELEASE, _NAMESPACE), _NAMESPACE, _RELEASE)
        if workload is None:
            raise StepFailed(
                f"release {_RELEASE} has no workload {_RELEASE}",
                remedy=f"See: helm get manifest {_RELEASE} -n {_NAMESPACE}",
            )
        watch = _Watch(self, workload.ref, note)
        still = wait_until(
            self.clock,
            watch.missing,
            seconds=HAND_OVER_SECONDS,
            interval_seconds=2.0,
            what="kube-apiserver's own pods to take over",
            note=note,
        )
        if still:
            raise StepFailed(
                f"kube-apiserver's own pods did not take over within {HAND_OVER_SECONDS:.0f} s: {still}",
                remedy="The standby pods keep serving the API. Fix the problem above, then run `upgrader recover`.",
            )


def _all_listen(facts: HostFacts) -> bool:
    """Whether each instance of kube-apiserver that runs there answers at a private address, or listens at a shared
    one.
    """
    running = len(facts.instances())
    return isinstance(facts.api, Endpoint) and running <= max(facts.api.instances, facts.api.listeners)


@dataclass
class _Watch:
    """One hand-over, checked again and again."""

    step: HandOverStep
    ref: WorkloadRef
    note: Callable[[str], None]
    _ready_since: dict[str, float] = field(default_factory=dict)
    _noted: str = ""
    _freed: set[str] = field(default_factory=set)
    _examined: float = field(default=-EXAMINE_SECONDS)

    def missing(self) -> str:
        """What the hand-over still waits for; "" when it is done. Raises ApiError, and what a fatal turn means."""
        still = self._missing()
        if still and still != self._noted:
            self.note(still)
        self._noted = still
        return still

    def _missing(self) -> str:
        step, now = self.step, self.step.clock.monotonic()
        if step.replaced_wrong and now - self._examined >= EXAMINE_SECONDS:
            self._examined = now
            if step.examine().wrong:
                step.recovery.bring_api_back(self.note)
            step.kube.reconnect()  # a kept connection may lead to one that is just ending
        verdict = judge(step.kube, self.ref)
        standbys = self._standbys()
        ready = self._ready_nodes()
        self._ready_since = {node: self._ready_since.get(node, now) for node in ready}
        for node in standbys:
            if node in self._ready_since:
                self._end_standby(node, now - self._ready_since[node])
            elif verdict.kind is VerdictKind.BROKEN and holds_port(verdict):
                self._free_port(node)
        if verdict.kind is not VerdictKind.HOLDS:
            return verdict.reason
        if not standbys:
            return ""
        return f"the pods are Ready; waiting about a minute for standby pods to stop: {', '.join(standbys)}"

    def _standbys(self) -> list[str]:
        """The nodes on which a standby pod runs, as the API knows it."""
        found = self.step.kube.list(PODS, _NAMESPACE, labels=f"{CHECKPOINT_OF}={_RELEASE}")
        return sorted({pod.node for pod in map(Pod.parse, found) if not pod.finished})

    def _ready_nodes(self) -> set[str]:
        reading = read_workload(self.step.kube, self.ref)
        return {pod.node for pod in reading.newest if pod.ready} if reading else set()

    def _end_standby(self, node: str, ready_seconds: float) -> None:
        """End a standby pod whose pod is Ready, unless the pod-checkpointer does it: it sees more than we can."""
        beside = self._has_checkpointer(node)
        host = self._host(node)
        if host is None or ready_seconds < (BESIDE_SECONDS if beside else ALONE_SECONDS) or not self._runs(node):
            return
        why = "the pod-checkpointer has not deactivated it" if beside else "no pod-checkpointer runs there"
        self.note(f"{node}: deactivating the standby pod ({why})")
        HostActions(self.step.hosts).deactivate(host, _MANIFEST_PATH)

    def _runs(self, node: str) -> bool:
        """Whether its own instance runs there and has done so for a while, as the machine itself reports.

        A pod's status in the API is as old as the kubelet's last report: after a power cut, from before it. And where
        its readiness probe asks the address that the standby pod shares, that one's answers make it Ready. So each
        instance must listen: otherwise, the standby pod may be the only one.
        """
        for controller in self.step.examine().controllers:
            if controller.host.name == node and controller.facts is not None:
                facts = controller.facts
                found = () if isinstance(facts.containers, Unknown) else facts.containers
                return _all_listen(facts) and any(
                    item.state == "running"
                    and not item.standby
                    and facts.taken - (item.started or facts.taken) >= ALONE_SECONDS
                    for item in found
                )
        return False

    def _has_checkpointer(self, node: str) -> bool:
        kube = self.step.kube
        found = (
            *kube.list(PODS, _NAMESPACE, labels=_CHECKPOINTER),
            *kube.list(PODS, _NAMESPACE, labels=f"{CHECKPOINT_OF}=pod-checkpointer"),
        )
        return any(pod.node == node and pod.phase == "Running" and not pod.deleting for pod in map(Pod.parse, found))

    def _free_port(self, node: str) -> None:
        """End a standby pod that keeps its own pod from its port: for a moment there is no API, and that moment is
        bounded.
        """
        host, step = self._host(node), self.step
        if host is None or node in self._freed:
            return
        self._freed.add(node)
        self.note(
            f"{node}: kube-apiserver's own pod can't share the port with its standby pod; stopping the standby pod. "
            f"Until the kubelet has started the other pod, for up to {PORT_SECONDS:.0f} s, the API may be unreachable"
        )
        HostActions(step.hosts).deactivate(host, _MANIFEST_PATH)
        # The standby pod serves until the kubelet has ended it, so that the first good answers may still be its own.
        what = f"kube-apiserver's own pod on {node} to serve"
        still = wait_until(step.clock, self._own_pod_missing(node), seconds=PORT_SECONDS, what=what, note=self.note)
        if not still:
            return
        self.note(f"{node}: {still}: starting the standby pod again")
        step.recovery.bring_api_back(self.note)
        raise StepFailed(
            f"{node}: kube-apiserver's own pod did not take over the port within {PORT_SECONDS:.0f} s: {still}",
            remedy="The standby pod serves the API. Set --permit-port-sharing=true for kube-apiserver, so that both "
            "can run.",
        )

    def _own_pod_missing(self, node: str) -> Callable[[], str]:
        def missing() -> str:
            seen = read_api(self.step.kube)
            if not seen.answers or seen.refuses:
                return f"the API is unreachable: {seen.answer}"
            return "" if node in self._ready_nodes() else "kube-apiserver's own pod is not Ready"

        return missing

    def _host(self, node: str) -> Host | None:
        return next((host for host in self.step.cluster.controllers if host.name == node), None)
