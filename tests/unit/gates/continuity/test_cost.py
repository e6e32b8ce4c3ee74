"""What the gates of a step cost on a large cluster: requests, and rounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil, inf

import pytest

from testkit.fakes.clock import FakeClock
from tests.unit.gates.builders import NAMESPACE, add_daemonset, add_deployment, add_pod, running
from tests.unit.gates.continuity.living_cluster import LivingKube
from upgrader.engine.execution.gatekeeper import hold_all
from upgrader.errors import GateFailed
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.continuity.continuity import Continuity
from upgrader.gates.gate_catalog import GateCatalog
from upgrader.gates.kubernetes_kinds import LEASES, NODES, PODS
from upgrader.gates.node_health import HEARTBEATS
from upgrader.gates.shared_reads import ReadMemory, SharedReads
from upgrader.gates.workload_watcher import watch_workloads
from upgrader.model.cluster import Cluster
from upgrader.model.event import Event, GateChecked, GatePassed
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.health_before import HealthBefore
from upgrader.pipeline import GateRun, Pipeline, PipelineStep
from upgrader.ports import AT_ONCE, Kind, KubeObject
from upgrader.steps.verify import VerifyStep

WORKERS = 1_000
PAGE = 500
ROUND = 40
LAST_ROUNDS = 4
TEMPLATES = ("pod-checkpointer", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns")
"""Of the releases' workloads: a pod of each is tried."""
KUBERNETES = "\n---\n".join(
    f"kind: {kind}\nmetadata: {{name: {name}}}"
    for kind, name in (
        ("DaemonSet", "kube-proxy"),
        ("Deployment", "kube-controller-manager"),
        ("Deployment", "kube-scheduler"),
        ("Deployment", "coredns"),
    )
)


class LargeKube(LivingKube):
    """A thousand workers, each with its kube-proxy; every page of a list is a request."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        super().__init__()
        self.silent_kubelets = set()
        self.delete(PODS, "kube-apiserver-10.0.0.12", NAMESPACE)
        names = ["controller-1", *(f"worker-{number:04}" for number in range(WORKERS))]
        add_daemonset(self, "kube-proxy", desired=len(names))
        for name in names:
            spec = {"renewTime": "2026-01-01T00:00:00+00:00", "leaseDurationSeconds": 40}
            self.put(LEASES, {"metadata": {"name": name, "namespace": HEARTBEATS}, "spec": spec})
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            self.put(NODES, {"metadata": {"name": name}, "status": ready})
            add_pod(self, "kube-proxy", node=name, daemon=True)
        for name in ("kube-controller-manager", "kube-scheduler", "coredns"):
            add_pod(self, name, priority_class="system-cluster-critical")

    def list(self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> tuple[KubeObject, ...]:
        found = super().list(kind, namespace, labels=labels, fields=fields)
        self._further_pages(f"list {kind.plural}", len(found), PAGE)
        return found

    def each(
        self, kind: Kind, namespace: str = "", *, labels: str = "", at_once: int = AT_ONCE, metadata_only: bool = False
    ) -> Iterator[KubeObject]:
        found = super().list(kind, namespace, labels=labels)
        self._further_pages(f"list {kind.plural}", len(found), at_once)
        yield from found

    def count(self, kind: Kind, namespace: str = "", *, labels: str = "") -> int:
        return len(super().list(kind, namespace, labels=labels))

    def _further_pages(self, what: str, number: int, size: int) -> None:
        self.asked[what] += max(0, ceil(number / size) - 1)

    def _check(self, what: str) -> None:
        self.asked[" ".join(what.split()[:2])] += 1
        super()._check(what)


class Seen(list[Event]):
    """What the gatekeeper reports."""

    def emit(self, event: Event) -> None:
        self.append(event)


@pytest.fixture
def kube() -> LargeKube:
    """A large cluster where everything works."""
    return LargeKube()


def old_proxies(kube: LargeKube) -> None:
    """A DaemonSet that is replaced node by node."""
    some = WORKERS - 100
    add_daemonset(
        kube,
        "kube-proxy",
        desired=WORKERS + 1,
        generation=2,
        revision=2,
        numberReady=some,
        updatedNumberScheduled=some,
        numberAvailable=some,
    )


def starting_pod(kube: LargeKube) -> None:
    """A Deployment whose new pod isn't Ready yet."""
    add_deployment(kube, "coredns", generation=2, revision=2, updatedReplicas=1, readyReplicas=0, availableReplicas=0)
    add_pod(kube, "coredns", running(ready=False), revision=2)


def rebooting_node(kube: LargeKube) -> None:
    """The controller, for the moment."""
    ready = {"conditions": [{"type": "Ready", "status": "False"}]}
    kube.put(NODES, {"metadata": {"name": "controller-1"}, "status": ready})


def starting_critical_pod(kube: LargeKube) -> None:
    """One that no release has."""
    add_deployment(kube, "csi", readyReplicas=0, availableReplicas=0)
    add_pod(kube, "csi", running(ready=False), priority_class="system-cluster-critical")


def gates_of(kube: SharedReads, clock: FakeClock, cluster: Cluster) -> tuple[GateRun, ...]:
    """All that stand behind the step `kubernetes`, as a run makes them."""
    before = HealthBefore(tuple(f"worker-{number:04}" for number in range(WORKERS)))
    cluster = replace(cluster, controllers=cluster.controllers[:1])
    catalog = GateCatalog(kube, clock, cluster, GatePolicy(), before)
    continuity = Continuity(kube, clock, controllers=("controller-1",), removed=(), policy=catalog.scaled)
    continuity.compare_with(continuity.take(lambda _: None, begun=False), clock.now())
    for _ in range(2):  # as beside Helm: each kubelet is known to live
        catalog.health.glance()
        clock.sleep(10)
    own = catalog.of_release("kubernetes", KUBERNETES, namespace=NAMESPACE, target=None)
    (step,) = continuity.around(Pipeline((PipelineStep(VerifyStep("kubernetes"), own, ()),))).steps
    return step.gates


def test_gates_of_a_step_on_a_thousand_nodes(kube: LargeKube, clock: FakeClock, cluster: Cluster) -> None:
    """Where all is well, three rounds are enough, and each of the slower questions is asked once."""
    reads, seen = SharedReads(kube, clock, ReadMemory()), Seen()
    gates = gates_of(reads, clock, cluster)
    kube.asked.clear()
    begun = clock.monotonic()
    hold_all("kubernetes", gates, clock=clock, reporter=seen, absence=ApiAbsence(reads, clock, inf))
    passed = [event for event in seen if isinstance(event, GatePassed)]
    assert len(passed) == len(gates)
    assert max(event.checks for event in passed) == 3
    assert clock.monotonic() - begun < 7, "two pauses of a cluster of this size"
    assert kube.asked["create pods"] == len(TEMPLATES), "each template once"
    assert [kube.asked[f"list {kind}"] for kind in ("namespaces", "configmaps", "servicecidrs", "apiservices")] == [
        1
    ] * 4
    assert sum(kube.asked.values()) <= 110, kube.asked.most_common()


@pytest.mark.parametrize("waits_for", [old_proxies, starting_pod, rebooting_node, starting_critical_pod])
def test_gates_that_wait_ask_three_times_a_second(
    kube: LargeKube, clock: FakeClock, cluster: Cluster, waits_for: Callable[[LargeKube], None]
) -> None:
    """However long, and whichever of them waits: behind sixty requests at first, until only those rounds are left in
    which a gate has to hold.
    """
    reads = SharedReads(kube, clock, ReadMemory())
    gates = gates_of(reads, clock, cluster)
    waits_for(kube)
    kube.asked.clear()
    begun, seen = clock.monotonic(), Seen()
    absence = ApiAbsence(reads, clock, inf)
    with pytest.raises(GateFailed, match=r"within \d+ s"):
        hold_all("kubernetes", gates, clock=clock, reporter=seen, absence=absence, asked=lambda: reads.memory.asked)
    spent = clock.monotonic() - begun
    checks = Counter(event.gate for event in seen if isinstance(event, GateChecked))
    assert max(checks.values()) >= 10, "a fault is found in time"
    assert min(gate.policy.deadline_seconds for gate in gates) <= spent <= 124
    assert sum(kube.asked.values()) <= 60 + LAST_ROUNDS * ROUND + 3 * spent, kube.asked.most_common()


@pytest.mark.parametrize("waits_for", [old_proxies, starting_pod])
def test_looks_beside_helm_ask_three_times_a_second(
    kube: LargeKube, clock: FakeClock, cluster: Cluster, waits_for: Callable[[LargeKube], None]
) -> None:
    """While Helm waits for the pods of a release."""
    before = HealthBefore(tuple(f"worker-{number:04}" for number in range(WORKERS)))
    cluster = replace(cluster, controllers=cluster.controllers[:1])
    catalog = GateCatalog(SharedReads(kube, clock, ReadMemory()), clock, cluster, GatePolicy(), before)
    beside, pace = SharedReads(kube, clock, ReadMemory()), catalog.scaled
    look = watch_workloads(
        beside,
        KUBERNETES,
        clock=clock,
        namespace=NAMESPACE,
        absence=ApiAbsence(beside, clock, inf, pace.recheck_seconds),
        glance=catalog.health.glance,
        every_seconds=pace.interval_seconds,
        recheck_seconds=pace.recheck_seconds,
    )
    waits_for(kube)
    kube.asked.clear()
    for _ in range(120):
        look()
        clock.sleep(1.0)
    assert look.last and sum(kube.asked.values()) <= 3 * 120, kube.asked.most_common()
