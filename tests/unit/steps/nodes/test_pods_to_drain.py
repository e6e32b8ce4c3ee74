"""Which pods leave a node that is drained."""

from __future__ import annotations

from typing import Any

import pytest

from upgrader.steps.nodes.pods_to_drain import DrainedPods, pods_to_drain, tolerates_cordon


def pod(name: str = "web", owner: str = "ReplicaSet", *, namespace: str = "default", **more: Any) -> dict[str, Any]:
    """A pod; `owner` is the kind of its controller."""
    owners = [{"kind": owner, "name": "its", "controller": True}] if owner else []
    meta = {"name": name, "namespace": namespace, "uid": name, "ownerReferences": owners, **more.pop("meta", {})}
    return {"metadata": meta, "spec": more.pop("spec", {}), "status": {"phase": more.pop("phase", "Running")}}


def names(found: DrainedPods) -> list[str]:
    """All that leave."""
    return [item.name for item in (*found.owned, *found.bare)]


@pytest.mark.parametrize(
    "stays",
    [
        pod(owner="DaemonSet"),
        pod(owner="Job", phase="Succeeded"),
        pod(owner="", phase="Failed"),
        pod(owner="Node", meta={"annotations": {"kubernetes.io/config.mirror": "x"}}),
    ],
    ids=["daemon", "ended", "failed", "static"],
)
def test_pods_that_stay(stays: dict[str, Any]) -> None:
    """A DaemonSet would make its pod again, a static pod has no owner in the API, and what has ended needs no node."""
    assert not pods_to_drain([stays], controller=False)


def test_pods_without_a_controller_are_kept_apart() -> None:
    """Nobody makes them again."""
    found = pods_to_drain([pod("web"), pod("alone", "")], controller=False)
    assert [item.name for item in found.owned] == ["web"]
    assert [item.name for item in found.bare] == ["alone"]


def test_pod_with_an_owner_that_is_no_controller_is_bare() -> None:
    """An owner only deletes it with itself."""
    owned = pod(owner="", meta={"ownerReferences": [{"kind": "ConfigMap", "name": "x"}]})
    assert pods_to_drain([owned], controller=False).bare


def test_pod_without_a_controller_that_is_ending_is_waited_for() -> None:
    """Somebody has deleted it already: there is nothing left to ask about."""
    found = pods_to_drain([pod("alone", "", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})], controller=False)
    assert [item.name for item in found.owned] == ["alone"] and not found.bare


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}, True),
        ({"key": "node.kubernetes.io/unschedulable"}, True),
        ({"key": "node.kubernetes.io/unschedulable", "value": "x"}, False),
        ({"key": "node.kubernetes.io/not-ready", "operator": "Exists"}, False),
    ],
)
def test_toleration_of_a_cordon(toleration: dict[str, str], tolerates: bool) -> None:
    """As the scheduler matches the taint, which has no value."""
    assert tolerates_cordon(pod(spec={"tolerations": [toleration]})) == tolerates
    assert not tolerates_cordon(pod())


PINNED = {"nodeSelector": {"node-role.kubernetes.io/control-plane": ""}}


@pytest.mark.parametrize(
    "own",
    [
        pod("kube-apiserver-x", namespace="kube-system", spec=PINNED),
        pod("anything", namespace="kube-system", spec=PINNED),
        pod("scheduler", namespace="kube-system", meta={"labels": {"app.kubernetes.io/name": "kube-scheduler"}}),
    ],
)
def test_control_plane_is_never_drained(own: dict[str, Any]) -> None:
    """On a controller, its pods stay: evicted, they would have nowhere to go, or one instance less would serve."""
    assert not pods_to_drain([own], controller=True)


def test_other_pods_of_a_controller_are_drained() -> None:
    """Users' pods leave it, pinned or not; CoreDNS does, too."""
    pods = [pod("web", spec=PINNED), pod("coredns", namespace="kube-system")]
    assert names(pods_to_drain(pods, controller=True)) == ["web", "coredns"]
