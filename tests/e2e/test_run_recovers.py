"""A run that Helm's own rollback can't save: the API is unreachable. `make soak` has one whose Helm is killed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from testkit.command import REPOSITORY
from testkit.lab_cluster import OLD, LabCluster, until
from upgrader.ports import Kind

_DEPLOYMENTS = Kind("apps/v1", "deployments")
_OLD_STYLE = REPOSITORY / "tests" / "e2e" / "charts" / "old-style-kube-apiserver"
_OWN_FLAGS = ("advertise-address", "bind-address", "endpoint-reconciler-type", "permit-port-sharing", "token-auth-file")
"""Flags that the old-style chart sets itself, or that only make sense beside HAProxy, or with our init container."""


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
