"""Diagnoses of real failures on a real cluster: gates rely on what the kubelet and the scheduler report."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from testkit.lab_cluster import OLD
from testkit.waiting import Patience
from upgrader.adapters.kube import KubeAdapter
from upgrader.gates.kubernetes_kinds import WORKLOADS
from upgrader.gates.workload_diagnosis import diagnose_workload
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.model.workload import WorkloadRef

NAMESPACE = "default"
TOOLS = "upgrader.lab/tools:1"
SCHEDULER = f"registry.k8s.io/kube-scheduler:{OLD}"
DEADLINE_SECONDS = 90.0

NEVER_READY = {"exec": {"command": ["sh", "-c", "echo no checkpoint yet; exit 1"]}, "periodSeconds": 1}

# Name → the container, its final verdict, and what the message must contain.
CASES: Mapping[str, tuple[dict[str, Any], VerdictKind, str]] = {
    "bad-flag": (
        {"image": SCHEDULER, "command": ["kube-scheduler", "--nonsense"]},
        VerdictKind.BROKEN,
        "exits with 1 (restarted 2 times): Error: unknown flag: --nonsense",
    ),
    "missing-image": ({"image": "registry.k8s.io/nonsense:v9"}, VerdictKind.BROKEN, "registry.k8s.io/nonsense:v9"),
    "never-pulled": (
        {"image": "registry.k8s.io/nonsense:v9", "imagePullPolicy": "Never"},
        VerdictKind.BROKEN,
        "(ErrImageNeverPull)",
    ),
    "missing-secret": (
        {"image": TOOLS, "envFrom": [{"secretRef": {"name": "nonsense"}}]},
        VerdictKind.BROKEN,
        'secret "nonsense" not found',
    ),
    "unschedulable": (
        {"image": TOOLS, "resources": {"requests": {"memory": "900Ti"}}},
        VerdictKind.PENDING,
        "Insufficient memory",
    ),
    "never-ready": (
        {"image": TOOLS, "command": ["sleep", "3600"], "readinessProbe": NEVER_READY},
        VerdictKind.PENDING,
        "Readiness probe failed: no checkpoint yet",
    ),
    "healthy": ({"image": TOOLS, "command": ["sleep", "3600"]}, VerdictKind.HOLDS, "1 of 1 pods"),
}


def deployment(name: str, container: Mapping[str, Any]) -> dict[str, Any]:
    """A Deployment of one pod that may run anywhere."""
    pod = {
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", **container}],
    }
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }


def test_real_failures_are_named(lab_folder: Path) -> None:
    """Each kind of failure gets its verdict, with its cause in the message; all at once, to save time."""
    kube = KubeAdapter(lab_folder / "kubeconfig")
    run = uuid.uuid4().hex[:6]
    refs = {case: WorkloadRef("Deployment", NAMESPACE, f"contract-{case}-{run}") for case in CASES}
    last: dict[str, Verdict] = {}
    missing = set(CASES)
    try:
        for case, ref in refs.items():
            kube.apply(WORKLOADS["Deployment"], deployment(ref.name, CASES[case][0]), NAMESPACE)
        patience = Patience(DEADLINE_SECONDS)
        while missing and patience.left():
            for case in sorted(missing):
                last[case] = diagnose_workload(kube, refs[case])
                _, kind, words = CASES[case]
                if last[case].kind is kind and words in last[case].reason:
                    missing.remove(case)
            time.sleep(0.5)
    finally:
        for ref in refs.values():
            kube.delete(WORKLOADS["Deployment"], ref.name, NAMESPACE)
        kube.close()
    if missing:
        pytest.fail("\n".join(f"{case}: {last[case].kind}: {last[case].reason}" for case in sorted(missing)))
