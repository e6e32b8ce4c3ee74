"""Bad changes to kube-apiserver that bypass `upgrader`."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from testkit.command import REPOSITORY
from testkit.lab_cluster import OLD, LabCluster, until
from upgrader.errors import ApiError
from upgrader.ports import Kind

__all__ = ["BAD_FLAG", "OLD_STYLE", "edit", "install_old_style", "upgrade", "upgrade_old_style"]

BAD_FLAG = "max-requests-inflight"
"""With `true`, which is not a number, kube-apiserver exits at once. (A check finds a flag that it doesn't know.)"""
OLD_STYLE = REPOSITORY / "tests" / "e2e" / "charts" / "old-style-kube-apiserver"

_CHART = REPOSITORY / "charts" / "kube-apiserver"
_DEPLOYMENTS = Kind("apps/v1", "deployments")
_HAND_OVER_FLAGS = (  # fields that only this project's chart has
    "bind-address",
    "advertise-address",
    "endpoint-reconciler-type",
    "goaway-chance",
    "permit-port-sharing",
    "shutdown-send-retry-after",
    "shutdown-watch-termination-grace-period",
)
_GENERATIONS = "/etc/kubernetes/checkpointer/workloads/kube-system.kube-apiserver/generations"


def upgrade(cluster: LabCluster, value: str = f"extraArgs.{BAD_FLAG}=true") -> None:
    """A plain `helm upgrade`, neither atomic nor waiting: Helm reports it deployed. `value`: as for `--set-string`."""
    cluster.helm("upgrade", "kube-apiserver", str(_CHART), "--reuse-values", "--set-string", value)


def edit(cluster: LabCluster) -> None:
    """`kubectl edit`: a flag, and a variable that no rollback removes."""
    found = copy.deepcopy(_deployment(cluster))
    for container in found["spec"]["template"]["spec"]["containers"]:
        if container["name"] == "kube-apiserver":
            container["args"].append(f"--{BAD_FLAG}=true")
            container["env"].append({"name": "ADDED_BY_HAND", "value": "1"})
    cluster.kube.replace(_DEPLOYMENTS, found, "kube-system")


def install_old_style(cluster: LabCluster, values: Path, *, kind: str = "DaemonSet") -> None:
    """Install kube-apiserver as older charts did, and wait for its checkpoint.

    Its values are written to the file `values`. `kind`: a DaemonSet with maxUnavailable 1, or a Deployment with
    maxSurge 1 and one replica for each controller.
    """
    flags = {name: value for name, value in _flags(cluster).items() if name not in _HAND_OVER_FLAGS}
    replicas = _deployment(cluster)["spec"]["replicas"]
    chosen = {"kubernetesVersion": OLD, "kind": kind, "replicas": replicas, "flags": flags}
    values.write_text(yaml.safe_dump(chosen))
    chart = ["upgrade", "kube-apiserver", str(OLD_STYLE), "--reset-values", "--force-conflicts"]
    cluster.helm(*chart, "--values", str(values))
    until("a checkpoint of its pod", lambda: _kept_without_haproxy(cluster), timeout_seconds=180)


def upgrade_old_style(cluster: LabCluster) -> None:
    """Give that DaemonSet a bad flag; wait until its old pod is gone, and the API with it."""
    cluster.helm(
        "upgrade", "kube-apiserver", str(OLD_STYLE), "--reuse-values", "--set-string", f"flags.{BAD_FLAG}=true"
    )
    until("the API to be unreachable", lambda: not _answers(cluster), timeout_seconds=60)


def _deployment(cluster: LabCluster) -> Any:
    return cluster.kube.get(_DEPLOYMENTS, "kube-apiserver", "kube-system")


def _flags(cluster: LabCluster) -> dict[str, str]:
    containers = _deployment(cluster)["spec"]["template"]["spec"]["containers"]
    (args,) = (container["args"] for container in containers if container["name"] == "kube-apiserver")
    return dict(arg.removeprefix("--").split("=", 1) for arg in args)


def _kept_without_haproxy(cluster: LabCluster) -> bool:
    newest = f"cat $(ls -d {_GENERATIONS}/[0-9]* | sort -V | tail -1)/manifest.json"
    return "haproxy" not in cluster.on_controller("sh", "-c", newest)


def _answers(cluster: LabCluster) -> bool:
    try:
        cluster.kube.raw("/readyz")
    except ApiError:
        return False
    return True
