"""When a rollout counts as complete: every number and every pod, never an allowance."""

from __future__ import annotations

import pytest

from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import add_daemonset, add_deployment, add_node, add_pod, running
from upgrader.gates.rollout_gate import RolloutGate
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.model.workload import WorkloadRef
from upgrader.ports import Kind, KubeObject

DEPLOYMENT = WorkloadRef("Deployment", "kube-system", "web")
DAEMONSET = WorkloadRef("DaemonSet", "kube-system", "agent")


def look(kube: FakeKube, ref: WorkloadRef, *, allow_none: bool = False) -> Verdict:
    """One look of the workload's gate."""
    return RolloutGate(kube, ref, allow_none).check()


@pytest.mark.parametrize(("ref", "name"), [(DEPLOYMENT, "deployment/web"), (DAEMONSET, "daemonset/agent")])
def test_gate_is_named_after_its_workload(kube: FakeKube, ref: WorkloadRef, name: str) -> None:
    """The name is what operators see in the display and in the report."""
    assert RolloutGate(kube, ref).name == name


def test_complete_deployment_holds(kube: FakeKube) -> None:
    """All counts as wanted and each pod Ready: the gate holds."""
    add_deployment(kube, replicas=2)
    add_pod(kube, "web", node="controller-1")
    add_pod(kube, "web", node="controller-2")
    verdict = look(kube, DEPLOYMENT)
    assert verdict.kind is VerdictKind.HOLDS
    assert verdict.reason == "Deployment kube-system/web: 2 of 2 pods updated, Ready and available"


def test_complete_daemonset_holds(kube: FakeKube) -> None:
    """The same for a DaemonSet, whose newest pods are told by their controller-revision hash."""
    add_daemonset(kube)
    add_pod(kube, "agent", daemon=True)
    assert look(kube, DAEMONSET).kind is VerdictKind.HOLDS


def test_max_unavailable_on_one_node_does_not_fool_the_gate(kube: FakeKube) -> None:
    """F4: with no pod Ready on the only node, maxUnavailable 1 is no excuse (helm#10845)."""
    add_daemonset(kube, numberReady=0, numberAvailable=0)
    add_pod(kube, "agent", running(ready=False), daemon=True)
    verdict = look(kube, DAEMONSET)
    assert verdict.kind is VerdictKind.PENDING
    assert "container main of pod agent-1-controller-1" in verdict.reason


def test_counts_of_the_spec_before_do_not_count(kube: FakeKube) -> None:
    """Until the controller has seen the new generation, perfect counts are those of the old one."""
    add_deployment(kube, generation=7, observed=6)
    add_pod(kube, "web")
    verdict = look(kube, DEPLOYMENT)
    assert verdict.kind is VerdictKind.PENDING
    assert "generation 7, observed 6" in verdict.reason


def test_ready_pods_of_an_old_revision_do_not_count(kube: FakeKube) -> None:
    """A DaemonSet whose counts look right but whose pod is of the old revision hasn't rolled."""
    add_daemonset(kube, revision=1)
    add_daemonset(kube, revision=2)
    add_pod(kube, "agent", daemon=True, revision=1)
    verdict = look(kube, DAEMONSET)
    assert verdict.kind is VerdictKind.PENDING
    assert "0 of 1 pods have the newest revision" in verdict.reason


def test_daemonset_whose_pods_have_to_be_deleted(kube: FakeKube) -> None:
    """OnDelete: its controller replaces no pod, so the verdict says which ones are left, and whose task it is."""
    for revision in (1, 2):
        add_daemonset(kube, revision=revision, desired=2, strategy="OnDelete", updatedNumberScheduled=1)
    add_pod(kube, "agent", daemon=True, revision=2, node="worker-1")
    add_pod(kube, "agent", daemon=True, revision=1, node="worker-2")
    verdict = look(kube, DAEMONSET)
    assert verdict.kind is VerdictKind.PENDING
    assert verdict.reason.endswith(
        "not yet replaced: agent-1-worker-2, which another client must delete (strategy OnDelete)"
    )
    assert "kubectl -n kube-system delete pod agent-1-worker-2" in verdict.remedy


@pytest.mark.parametrize(("pods_template", "kind"), [(4, VerdictKind.HOLDS), (3, VerdictKind.PENDING)])
def test_revision_that_another_controller_manager_wrote(kube: FakeKube, pods_template: int, kind: VerdictKind) -> None:
    """v1.34 writes the same pod template into a revision of another hash, and keeps the pods: they are of the newest
    template. Pods of another template are not.
    """
    add_daemonset(kube, revision=2, template=4)
    labels = {"app": "agent", "controller-revision-hash": "hash-1", "pod-template-generation": str(pods_template)}
    add_pod(kube, "agent", daemon=True, labels=labels)
    assert look(kube, DAEMONSET).kind is kind


def test_revived_replica_set_is_the_newest(kube: FakeKube) -> None:
    """A rollback revives an old ReplicaSet under a higher revision number: that one is judged, not the youngest."""
    add_deployment(kube, revision=2)
    add_deployment(kube, revision=10)
    add_pod(kube, "web", revision=10)
    assert look(kube, DEPLOYMENT).kind is VerdictKind.HOLDS


def test_old_pods_must_be_gone(kube: FakeKube) -> None:
    """An old pod that still terminates may answer in the new one's stead."""
    add_deployment(kube, revision=1)
    add_deployment(kube, revision=2)
    add_pod(kube, "web", revision=2)
    add_pod(kube, "web", revision=1, deleting=True)
    verdict = look(kube, DEPLOYMENT)
    assert verdict.kind is VerdictKind.PENDING
    assert "old pods are still terminating: web-1-controller-1" in verdict.reason


def test_finished_pods_are_left_out(kube: FakeKube) -> None:
    """An evicted pod that nobody has removed yet is no old pod that still runs."""
    add_deployment(kube)
    add_pod(kube, "web")
    add_pod(kube, "web", name="web-evicted", phase="Failed", message="The node was low on resource: memory.")
    assert look(kube, DEPLOYMENT).kind is VerdictKind.HOLDS


def test_container_between_two_crashes_is_not_settled(kube: FakeKube) -> None:
    """Without a probe a crash-looper is Ready for moments: it must run for a while after its last failure."""
    last = {"terminated": {"exitCode": 3}}
    add_deployment(kube)
    add_pod(kube, "web", running(since="2025-12-31T23:59:57Z", restarts=4, last=last))
    for heard in ("", "2025-12-31T23:59:50Z", "2026-01-01T00:00:06Z"):
        add_node(kube, "controller-1", renewed=heard)
        verdict = look(kube, DEPLOYMENT)
        assert verdict.kind is VerdictKind.PENDING
        assert "has just restarted (exit code 3)" in verdict.reason
    add_node(kube, "controller-1", renewed="2026-01-01T00:00:08Z")
    assert look(kube, DEPLOYMENT).kind is VerdictKind.HOLDS


def test_container_that_failed_long_ago_is_settled(kube: FakeKube) -> None:
    """One that was restarted a month ago, and runs since, is healthy."""
    add_deployment(kube)
    add_node(kube, "controller-1")
    add_pod(kube, "web", running(restarts=4, last={"terminated": {"exitCode": 3}}))
    assert look(kube, DEPLOYMENT).kind is VerdictKind.HOLDS


def test_many_nodes_are_heard_of_together(kube: FakeKube) -> None:
    """After a power cut every container runs again: their nodes' times are one list."""
    add_daemonset(kube, desired=8)
    for number in range(8):
        add_node(kube, f"worker-{number}")
        add_pod(kube, "agent", running(last={"terminated": {"exitCode": 255}}), node=f"worker-{number}", daemon=True)
    assert look(kube, DAEMONSET).kind is VerdictKind.HOLDS


def test_daemonset_that_no_node_wants_holds_only_if_allowed(kube: FakeKube) -> None:
    """Zero of zero is not health for our own charts, but may be for a user's."""
    add_daemonset(kube, desired=0)
    assert look(kube, DAEMONSET).kind is VerdictKind.PENDING
    assert look(kube, DAEMONSET, allow_none=True).kind is VerdictKind.HOLDS


def test_deployment_scaled_to_zero_holds(kube: FakeKube) -> None:
    """Nobody asks for pods, so none is missing."""
    add_deployment(kube, replicas=0)
    assert look(kube, DEPLOYMENT).kind is VerdictKind.HOLDS


def test_missing_workload_is_pending(kube: FakeKube) -> None:
    """The API says that there is none: that is known, and not healthy."""
    verdict = look(kube, DEPLOYMENT)
    assert verdict.kind is VerdictKind.PENDING
    assert verdict.reason == "Deployment kube-system/web does not exist"


def test_a_check_reads_a_workload_once(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who changed it, whether it is complete, and which images run, are said of one moment."""
    add_deployment(kube)
    add_pod(kube, "web")
    read: list[str] = []
    plain = kube.list

    def listed(kind: Kind, namespace: str = "", **more: str) -> tuple[KubeObject, ...]:
        read.append(kind.plural)
        return plain(kind, namespace, **more)

    monkeypatch.setattr(kube, "list", listed)
    gate = RolloutGate(kube, DEPLOYMENT, images={"main": "registry/x:1"}, applied={"spec": {}})
    gate.check()
    assert sorted(read) == ["deployments", "pods", "replicasets"]


def test_api_away_is_unknown(kube: FakeKube) -> None:
    """Without an answer nothing is known, neither health nor its lack; and no exception leaves the gate."""
    add_deployment(kube)
    kube.unavailable = True
    verdict = look(kube, DEPLOYMENT)
    assert verdict.kind is VerdictKind.UNKNOWN
    assert "Connection refused" in verdict.reason


def test_replica_on_a_node_that_is_down(kube: FakeKube) -> None:
    """Its Deployment replaces it only minutes later: the replicas elsewhere count, as long as there is one."""
    add_deployment(kube, replicas=2, readyReplicas=1, availableReplicas=1)
    add_pod(kube, "web", node="worker-1")
    add_pod(kube, "web", running(ready=False), node="worker-2")
    assert look(kube, DEPLOYMENT).kind is VerdictKind.PENDING
    down = RolloutGate(kube, DEPLOYMENT, absent=lambda _: ("worker-2",)).check()
    assert down.reason == "Deployment kube-system/web: 1 of 1 pods updated, Ready and available"
    add_deployment(kube, replicas=2, readyReplicas=0, availableReplicas=0)
    add_pod(kube, "web", running(ready=False), node="worker-1")
    assert RolloutGate(kube, DEPLOYMENT, absent=lambda _: ("worker-1", "worker-2")).check().kind is VerdictKind.PENDING
