"""guard by its chart on a real cluster: real controllers, a real Service, real pods that get Ready by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from testkit.etcd_images import import_images
from testkit.lab_cluster import LabCluster, until
from upgrader.errors import ApiError
from upgrader.lab.daemon_images import guard_image
from upgrader.lab.progress_port import Silent
from upgrader.ports import Kind

CHART = Path(__file__).parents[2] / "charts" / "guard"
NAMESPACES = Kind("v1", "namespaces", namespaced=False)
SETS, PODS = Kind("apps/v1", "statefulsets"), Kind("v1", "pods")


@pytest.fixture
def guarded(cluster: LabCluster, tmp_path: Path) -> Iterator[LabCluster]:
    """The cluster, with guard in `guard`, which rolls in `shop`."""
    image = guard_image(Silent())
    import_images(cluster.name, ["controller-1"], [image], tmp_path)
    cluster.kube.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    repository, _, tag = image.name.rpartition(":")
    given = [f"--set=image.repository={repository}", f"--set=image.tag={tag}", "--set=tolerations[0].operator=Exists"]
    given += ["--set=rollouts.enabled=true", "--set=rollouts.namespaces={shop}"]
    command = ["install", "guard", str(CHART), "-n", "guard", "--create-namespace", "--wait", "--timeout", "3m"]
    cluster.helm(*command, *given, timeout_seconds=200)
    try:
        yield cluster
    finally:
        cluster.helm("uninstall", "guard", "-n", "guard", "--wait", timeout_seconds=120)
        for name in ("shop", "guard"):
            cluster.kube.delete(NAMESPACES, name)


def zone(name: str, image: str, word: str = "v1", **labels: str) -> dict[str, Any]:
    """A StatefulSet of one pod that is Ready three seconds after it has begun."""
    probe = {"exec": {"command": ["true"]}, "initialDelaySeconds": 3, "periodSeconds": 1}
    container = {
        "name": "x",
        "image": image,
        "command": ["sleep", "infinity"],
        "env": [{"name": "WORD", "value": word}],
        "readinessProbe": probe,
    }
    pod = {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "containers": [container],
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists"}],
        },
    }
    spec = {
        "replicas": 1,
        "serviceName": name,
        "selector": {"matchLabels": {"app": name}},
        "updateStrategy": {"type": "OnDelete"},
        "template": pod,
    }
    metadata = {"name": name, "labels": {"rollout-group": "zones", **labels}}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


def whole(cluster: LabCluster, names: list[str]) -> bool:
    """Whether each set is at its newest revision, Ready, and says so."""
    found: list[Any] = [cluster.kube.get(SETS, name, "shop") for name in names]
    return all(
        each["status"].get("readyReplicas") == 1
        and each["status"]["observedGeneration"] == each["metadata"]["generation"]
        and each["status"]["currentRevision"] == each["status"]["updateRevision"]
        and cluster.kube.list(PODS, "shop", labels=f"controller-revision-hash={each['status']['updateRevision']}")
        for each in found
    )


def shrink(cluster: LabCluster, name: str) -> str:
    """What the API server says to no replicas at all, on a dry run."""
    try:
        path = f"/apis/apps/v1/namespaces/shop/statefulsets/{name}"
        change, content_type = {"spec": {"replicas": 0}}, "application/merge-patch+json"
        cluster.kube._json("PATCH", path, "shrink", {"dryRun": "All"}, change, content_type=content_type)
    except ApiError as error:
        return error.message
    return ""


def test_zones_are_rolled_and_a_label_keeps_replicas(guarded: LabCluster) -> None:
    """v2 goes through three zones, each Ready before the next one's pod goes. What has the label doesn't shrink, until
    `upgrader guard off` lets it; after `guard on` it doesn't again. tests/contract/guard has a guard that is gone.
    """
    cluster = guarded
    tools = next(n for i in _images(cluster) for n in i if "/tools:" in n)
    names = [f"db-{each}" for each in "abc"]
    for name in names:
        cluster.kube.create(SETS, zone(name, tools, **{"grafana.com/no-downscale": "true"}), "shop")
    until("v1 to run", lambda: whole(cluster, names), timeout_seconds=120)
    for name in names:
        cluster.kube.replace(SETS, zone(name, tools, "v2", **{"grafana.com/no-downscale": "true"}), "shop")
    until("v2 to be everywhere", lambda: whole(cluster, names), timeout_seconds=180)
    pods: list[Any] = [cluster.kube.get(PODS, f"{name}-0", "shop") for name in names]
    for before, after in pairwise(pods):
        (ready,) = (c for c in before["status"]["conditions"] if c["type"] == "Ready")
        assert ready["lastTransitionTime"] <= after["metadata"]["creationTimestamp"], "one zone at a time"

    until(
        "a refusal", lambda: "is not allowed because it has the label" in shrink(cluster, "db-a"), timeout_seconds=120
    )
    ended = cluster.upgrader("guard", "off")
    assert ended.exit_code == 0, ended
    assert ended.stderr.count("off: ") == 4, "no-downscale and hold, each by object and by scale"
    until("no refusal", lambda: shrink(cluster, "db-a") == "", timeout_seconds=120)
    ended = cluster.upgrader("guard", "on")
    assert ended.exit_code == 0, ended
    until(
        "a refusal", lambda: "is not allowed because it has the label" in shrink(cluster, "db-a"), timeout_seconds=120
    )


def _images(cluster: LabCluster) -> list[list[str]]:
    nodes: Any = cluster.kube.list(Kind("v1", "nodes", namespaced=False))
    return [image["names"] for node in nodes for image in node["status"]["images"]]
