"""Runs that Helm's own rollback can't save: Helm is killed, or the API is unreachable."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

import yaml

from testkit.command import REPOSITORY, running
from testkit.lab_cluster import OLD, LabCluster, until
from testkit.processes import children
from testkit.waiting import stretched
from upgrader.ports import Kind

_DEPLOYMENTS = Kind("apps/v1", "deployments")
_OLD_STYLE = REPOSITORY / "tests" / "e2e" / "charts" / "old-style-kube-apiserver"
_BAD_FLAG = {"max-requests-inflight": "many"}
_OWN_FLAGS = ("advertise-address", "bind-address", "endpoint-reconciler-type", "permit-port-sharing", "token-auth-file")
"""Flags that the old-style chart sets itself, or that only make sense beside HAProxy, or with our init container."""


def test_helm_killed_in_the_middle_of_a_bad_change(cluster: LabCluster) -> None:
    """If Helm is killed during a bad change, the run rolls it back and ends with 4, and the API stays available."""
    before = cluster.manifests()
    cluster.change_values("kube-apiserver", {"extraArgs": _BAD_FLAG})
    skipping = ("--skip", "trial.refused", "--reason", "a test")
    with running("-C", cluster.folder, "run", "--to", OLD, "--yes", *skipping) as run:
        until("Helm at work on kube-apiserver", lambda: _pending(cluster), timeout_seconds=120)
        (helm,) = children(run.pid, "helm")
        os.kill(helm, signal.SIGKILL)
        output, _ = run.communicate(timeout=stretched(240))

    assert run.returncode == 4, output
    assert "Helm was killed (signal 9)" in output
    cluster.wait_healthy(OLD)
    assert cluster.manifests() == before
    report = cluster.report()
    assert report["outcome"] == "rolled-back"
    assert report["recoveries"] == [], "the API was never away"
    assert report["availability"]["failed"] == 0, report["availability"]


def test_change_that_takes_the_api_away(cluster: LabCluster) -> None:
    """If an old-style DaemonSet that never serves replaces kube-apiserver, the run recovers the API and rolls back.

    Helm considers it ready (helm#10845) and removes the Deployment; a wrong etcd address is not certain at the first
    crash. A check tells it beforehand, and is skipped.
    """
    before = cluster.manifests()
    (cluster.folder / "values" / "old-style.yaml").write_text(
        yaml.safe_dump({"kubernetesVersion": OLD, "flags": {**_flags(cluster), "etcd-servers": "https://127.0.0.1:1"}})
    )
    old_style = {"release": "kube-apiserver", "namespace": "kube-system", "chart": str(_OLD_STYLE)}
    cluster.change_settings(
        {
            "pipeline": [
                {"release": "pod-checkpointer"},
                {**old_style, "values": "values/old-style.yaml"},
                {"release": "kubernetes"},
            ],
            # Earlier than the pod-checkpointer, which waits a minute for a crash loop to end by itself.
            "policy": {"recovery": {"after": "15s"}},
        }
    )
    ended = cluster.run(OLD, skip="planned-etcd.unanswered")

    assert ended.exit_code == 4, ended
    cluster.wait_healthy(OLD)
    assert cluster.manifests() == before
    report = cluster.report()
    assert report["outcome"] == "rolled-back"
    assert [recovery["outcome"] for recovery in report["recoveries"]] == ["succeeded"], ended
    types = [record["type"] for record in cluster.journal()]
    assert types.index("StepEnded") < types.index("RecoveryStarted") < types.index("RecoveryEnded")
    until("the standby pod to be deactivated", lambda: cluster.standby_pods() == [], timeout_seconds=90)


def _pending(cluster: LabCluster) -> bool:
    return bool(cluster.releases()["kube-apiserver"]["status"] == "pending-upgrade")


def _flags(cluster: LabCluster) -> Mapping[str, str | list[str]]:
    """The flags that kube-apiserver runs with, as the old-style chart takes them."""
    deployment: Any = cluster.kube.get(_DEPLOYMENTS, "kube-apiserver", "kube-system")
    containers = deployment["spec"]["template"]["spec"]["containers"]
    container = next(item for item in containers if item["name"] == "kube-apiserver")
    flags: dict[str, str | list[str]] = {}
    for word in (*container.get("command", ()), *container.get("args", ())):
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and equals and name not in _OWN_FLAGS:
            flags[name] = value
    return flags
