"""What an operator is advised to do about a workload that doesn't become ready."""

from __future__ import annotations

from typing import Any

import pytest

from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import add_deployment, add_pod, container, crashed, running, waiting
from upgrader.gates.workload_diagnosis import diagnose_workload
from upgrader.model.outcome import Verdict
from upgrader.model.workload import WorkloadRef

WEB = WorkloadRef("Deployment", "kube-system", "web")


def check(kube: FakeKube) -> Verdict:
    """One diagnosis."""
    return diagnose_workload(kube, WEB)


@pytest.mark.parametrize(
    ("status", "log"),
    [
        (crashed(1), "kubectl -n kube-system logs web-2-controller-1 -c main --previous"),
        (container("main", {"terminated": {"exitCode": 1}}, ready=False), "logs web-2-controller-1 -c main"),
        (running(ready=False), "logs web-2-controller-1 -c main"),
        (waiting("ImagePullBackOff"), ""),
    ],
    ids=["crash loop", "ended", "not ready", "never started"],
)
def test_pod_at_fault_is_named_with_its_log(kube: FakeKube, status: dict[str, Any], log: str) -> None:
    """The remedy shows the log of the container at fault where it ever wrote one, and the pod's events otherwise."""
    add_deployment(kube, revision=2, generation=2, updatedReplicas=0)
    add_pod(kube, "web", status, revision=2)
    remedy = check(kube).remedy
    assert (log or "kubectl -n kube-system describe pod web-2-controller-1") in remedy
    assert ("describe pod" in remedy) is ("logs" not in remedy)


def test_what_a_rollback_leaves_comes_first(kube: FakeKube) -> None:
    """Whoever reads it once the pod is gone finds what is still there: the report, and the workload."""
    add_deployment(kube, revision=2, generation=2, updatedReplicas=0)
    add_pod(kube, "web", crashed(1), revision=2)
    kept, gone = check(kube).remedy.split("While the pod exists: ")
    assert "`upgrader report`" in kept and "kubectl -n kube-system describe deployment web" in kept
    assert "web-2-controller-1" not in kept and "web-2-controller-1" in gone


def test_workload_without_pods_is_described(kube: FakeKube) -> None:
    """Where no pod is at fault, the workload's own conditions and events say more."""
    add_deployment(kube, generation=2, observed=1)
    assert "kubectl -n kube-system describe deployment web" in check(kube).remedy


def test_missing_workload_is_searched_for(kube: FakeKube) -> None:
    """A workload that isn't there may have another name."""
    assert "kubectl -n kube-system get deployments" in check(kube).remedy


def test_healthy_workload_needs_no_remedy(kube: FakeKube) -> None:
    """A verdict that holds has none."""
    add_deployment(kube)
    add_pod(kube, "web")
    assert check(kube).remedy == ""
