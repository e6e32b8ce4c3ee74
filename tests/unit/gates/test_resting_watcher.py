"""Beside Helm, on a large cluster: little is asked, and a fault is found as early."""

from __future__ import annotations

from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import add_daemonset, add_deployment, add_pod, crashed, running
from upgrader.errors import ApiError, ApiLost, WorkloadFailed
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.kubernetes_kinds import PODS
from upgrader.gates.workload_watcher import WorkloadWatcher, watch_workloads
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.outcome import VerdictKind
from upgrader.ports import Kind

LARGE = GatePolicy().at_scale(1_000)
MANIFEST = "\n---\n".join(f"kind: Deployment\nmetadata: {{name: {name}}}" for name in ("web", "other"))
ONE_ON_EACH_NODE = "kind: DaemonSet\nmetadata: {name: agent}"


class AskedKube(FakeKube):
    """Notes each request with its time."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.asked: list[tuple[float, str]] = []
        super().__init__()
        self.raw_answers["/readyz"] = "ok"

    def _check(self, what: str) -> None:
        self.asked.append((self.clock.monotonic(), " ".join(what.split()[:2])))
        super()._check(what)

    def since(self, seconds: float) -> list[str]:
        """What was asked from then on."""
        return [what for time, what in self.asked if time >= seconds]


@pytest.fixture
def kube(clock: FakeClock) -> AskedKube:
    """A cluster whose two Deployments, with a pod each, are complete."""
    found = AskedKube(clock)
    for name in ("web", "other"):
        add_deployment(found, name)
        add_pod(found, name)
    return found


def beside_helm(kube: AskedKube, manifest: str = MANIFEST) -> WorkloadWatcher:
    """A watcher as a run on 1,000 nodes has it."""
    absence = ApiAbsence(kube, kube.clock, 5.0, LARGE.recheck_seconds)
    return watch_workloads(
        kube,
        manifest,
        clock=kube.clock,
        namespace="kube-system",
        absence=absence,
        every_seconds=LARGE.interval_seconds,
        recheck_seconds=LARGE.recheck_seconds,
    )


def helm_changes(kube: AskedKube, name: str, *containers: dict[str, Any]) -> str:
    """A new revision whose pod is in this state, beside the old one; returns the pod's name."""
    add_deployment(kube, name, generation=2, revision=2, updatedReplicas=1, readyReplicas=0, availableReplicas=0)
    return add_pod(kube, name, *containers, revision=2)


def look_for(watch: WorkloadWatcher, clock: FakeClock, seconds: float) -> None:
    """Look once a second, as Helm's wait does."""
    end = clock.monotonic() + seconds
    while clock.monotonic() < end:
        watch()
        clock.sleep(1.0)


def test_fault_that_begins_amid_helms_work_ends_it_as_early_as_ever(kube: AskedKube, clock: FakeClock) -> None:
    """The next look, some 3 s later, finds it by the pod alone and diagnoses it; the one after it is certain."""
    watch = beside_helm(kube)
    for name in ("web", "other"):
        helm_changes(kube, name, running(ready=False))
    look_for(watch, clock, 2.0)
    pod = helm_changes(kube, "web", crashed(1))
    kube.log_texts[pod, "main", False] = "Error: unknown flag: --nonsense\n"
    with pytest.raises(WorkloadFailed, match="unknown flag: --nonsense"):
        look_for(watch, clock, 60.0)
    assert clock.monotonic() <= 2 * LARGE.interval_seconds + 1.0


def test_fault_of_a_workload_that_was_complete_is_found_as_early(kube: AskedKube, clock: FakeClock) -> None:
    """A pod that fails once it was Ready is among those that are looked at."""
    watch = beside_helm(kube)
    add_deployment(kube, "web", generation=2, revision=2)
    add_pod(kube, "web", revision=2)
    kube.delete(PODS, "web-1-controller-1", "kube-system")
    helm_changes(kube, "other", running(ready=False))
    look_for(watch, clock, 2.0)
    assert [verdict.kind for verdict in watch.last] == [VerdictKind.HOLDS, VerdictKind.PENDING]
    helm_changes(kube, "web", crashed(1))
    with pytest.raises(WorkloadFailed, match="Deployment kube-system/web"):
        look_for(watch, clock, 60.0)
    assert clock.monotonic() <= 2 * LARGE.interval_seconds + 1.0


def test_between_two_diagnoses_one_list_answers(kube: AskedKube, clock: FakeClock) -> None:
    """Where pods just start, two of three looks ask for the pods of all Deployments together, and for nothing else."""
    watch = beside_helm(kube)
    for name in ("web", "other"):
        helm_changes(kube, name, running(ready=False))
    watch()
    begun = len(kube.asked)
    for _ in range(8):
        clock.sleep(1.0)
        watch()
    assert {what for _, what in kube.asked[begun:]} == {"list pods"}
    assert len(kube.asked) - begun <= 2 * 2, "each workload asks once; a run's shared reads make one of it"
    clock.sleep(1.0)
    watch()
    assert "list deployments" in kube.since(clock.monotonic())


def test_api_that_is_lost_between_two_diagnoses_is_missed_at_once(kube: AskedKube, clock: FakeClock) -> None:
    """Also where only a workload with a pod on each of many nodes is waited for, whose pods aren't listed."""
    add_daemonset(kube, "agent", desired=1_000)
    watch = beside_helm(kube, ONE_ON_EACH_NODE)
    add_daemonset(kube, "agent", desired=1_000, generation=2, revision=2, numberReady=900)
    look_for(watch, clock, 2.0)
    begun = clock.monotonic()
    kube.unavailable = True
    with pytest.raises(ApiLost, match="has not been ready"):
        look_for(watch, clock, 60.0)
    assert clock.monotonic() - begun <= 5.0 + 2 * LARGE.interval_seconds


def test_group_that_is_no_longer_served_is_no_calm(
    kube: AskedKube, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `apps/v1` the next look sees it, and from then on each asks what a rollback needs."""
    add_daemonset(kube, "agent", desired=1_000)
    watch = beside_helm(kube, ONE_ON_EACH_NODE)
    add_daemonset(kube, "agent", desired=1_000, generation=2, revision=2, numberReady=900)
    look_for(watch, clock, 2.0)
    begun, every = clock.monotonic(), kube.list

    def refuse(kind: Kind, *more: Any, **some: Any) -> Any:
        if not kind.api_version.startswith("apps/"):
            return every(kind, *more, **some)
        error = ApiError("404 page not found")
        error.status = 404
        raise error

    monkeypatch.setattr(kube, "list", refuse)
    with pytest.raises(ApiLost, match="404 page not found"):
        look_for(watch, clock, 60.0)
    assert clock.monotonic() - begun <= 4 * LARGE.interval_seconds
