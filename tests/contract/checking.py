"""What tests of checks on a real API server share."""

from __future__ import annotations

import base64
import gzip
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from upgrader.adapters.clock import SystemClock
from upgrader.adapters.kube import KubeAdapter
from upgrader.app.observe_cluster import kubelet_versions
from upgrader.model.cluster import Cluster, Host
from upgrader.model.finding import Finding
from upgrader.model.observed import Observed
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.onhost.sending.host_facts import Examined
from upgrader.ports import Kind, Kube
from upgrader.preflight.all_checks import Check, run_checks
from upgrader.preflight.context import NODES, PODS, PreflightContext
from upgrader.steps.plan import Plan
from upgrader.steps.release.plan import PlannedRelease

__all__ = [
    "GROUP",
    "SERVER",
    "TARGET",
    "Make",
    "Status",
    "checked",
    "fake_node",
    "findings",
    "found",
    "ids",
    "merge",
    "rewrite_record",
    "waiting_pod",
]

GROUP = "check.upgrader.example"
SERVER, TARGET = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
Make = Callable[..., str]
Status = Callable[[Kind, str, str, Mapping[str, Any]], None]


def checked(
    kube: Kube,
    *,
    later: timedelta = timedelta(),
    controllers: Sequence[str] | None = None,
    planned: Mapping[str, str] | None = None,
    examined: Sequence[Examined] = (),
) -> PreflightContext:
    """What a check is given on a cluster whose controllers are those with the label, or named, on a clock ahead."""
    if controllers is None:
        labelled = kube.list(NODES, labels="node-role.kubernetes.io/control-plane")
        controllers = [node["metadata"]["name"] for node in labelled]
    clock = FakeClock()
    clock.sleep((SystemClock().now() + later - clock.now()).total_seconds())
    steps = [
        PlannedRelease(ReleaseSpec(name, "kube-system", Path()), "upgrade", "", "", after, ())
        for name, after in (planned or {}).items()
    ]
    return PreflightContext(
        kube,
        FakeHosts(),
        FakeHelm(),
        clock,
        Cluster(Path(), Path(), "", Path(), tuple(Host(name, "") for name in controllers)),
        TARGET,
        Observed(SERVER, kubelet_versions(kube), {}),
        300.0,
        Plan(SERVER, TARGET, tuple(steps)),
        examine=lambda: examined,
    )


def findings(kube: KubeAdapter, check: Check, **more: Any) -> list[Finding]:
    """What a check finds on the cluster."""
    return list(run_checks(checked(kube, **more), [("family", check)]))


def found(kube: KubeAdapter, check: Check, name: str, **more: Any) -> list[str]:
    """The ids of the findings that name an object."""
    return [finding.id for finding in findings(kube, check, **more) if name in finding.title]


def ids(kube: KubeAdapter, check: Check, **more: Any) -> list[str]:
    """The ids of all that a check finds."""
    return [finding.id for finding in findings(kube, check, **more)]


def fake_node(
    make: Make,
    status: Status,
    *,
    spec: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    **told: Any,
) -> str:
    """A node without a machine, which reports what a kubelet would; nothing is placed there. Returns its name.

    `told` are fields of its status.
    """
    name = f"upgrader-check-{uuid.uuid4().hex[:6]}"
    taint = {"key": GROUP, "effect": "NoExecute"}
    make(NODES, {"metadata": {"name": name, **(meta or {})}, "spec": {"taints": [taint], **(spec or {})}})
    usual = {
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "is ready"}],
        "allocatable": {"memory": "4Gi", "pods": "110"},
        "nodeInfo": {"kubeletVersion": str(SERVER)},
    }
    status(NODES, name, "", {**usual, **told})
    return name


def waiting_pod(
    make: Make, node: str, container: Mapping[str, Any], namespace: str = "kube-system", **meta: Any
) -> str:
    """A pod that is bound to a fake node, where no kubelet starts it. Returns its name."""
    name = f"upgrader-check-{uuid.uuid4().hex[:6]}"
    spec = {
        "nodeName": node,
        "containers": [{"image": "nothing.example/nothing", **container}],
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
    }
    make(PODS, {"metadata": {"name": name, **meta}, "spec": spec}, namespace)
    return name


def rewrite_record(kube: KubeAdapter, release: str, manifest: str) -> None:
    """Let the record of a release's first revision have another manifest, as one that is older than the cluster has."""
    secret = kube.get(Kind("v1", "secrets"), f"sh.helm.release.v1.{release}.v1", "default")
    assert secret is not None
    kept = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))))
    packed = base64.b64encode(gzip.compress(json.dumps({**kept, "manifest": manifest}).encode()))
    data = {"release": base64.b64encode(packed).decode()}
    kube.replace(Kind("v1", "secrets"), {**secret, "data": data}, "default")


def merge(kube: KubeAdapter, path: str, change: Mapping[str, Any]) -> None:
    """Change some fields of the object at a path of the API, whoever else writes others at the same time."""
    kube._json("PATCH", path, f"change {path}", {}, change, content_type="application/merge-patch+json")
