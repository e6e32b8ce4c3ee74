"""When a lab's cluster counts as ready."""

from __future__ import annotations

import math
from typing import Any

import pytest

from upgrader.lab.readiness import troubles

_BOOT = 1_700_000_000.0  # 2023-11-14T22:13:20Z


def _node(name: str = "controller-1", ready: str = "True") -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def _pod(name: str, started: str = "2023-11-14T22:13:30Z", ready: str = "True", **metadata: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"nodeName": "controller-1"},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"state": {"running": {"startedAt": started}}}],
        },
    }


_PODS = [_pod("kube-proxy-1"), _pod("coredns-1"), _pod("etcd-controller-1")]


def test_all_ready_is_ready() -> None:
    """Nodes and pods Ready, kube-proxy on each node and CoreDNS somewhere: nothing is wrong."""
    assert troubles([_node()], _PODS, {"controller-1": _BOOT}) == []


@pytest.mark.parametrize(
    ("nodes", "pods", "says"),
    [
        ([], _PODS, "node controller-1"),
        ([_node(ready="Unknown")], _PODS, "node controller-1"),
        ([_node()], [*_PODS, _pod("x", ready="False")], "pod x"),
        ([_node()], _PODS[1:], "kube-proxy on controller-1"),
        ([_node()], [_PODS[0]], "CoreDNS"),
        ([_node()], [*_PODS, _pod("old", "2023-11-14T22:13:10Z")], "pod old (as it was before controller-1"),
    ],
)
def test_what_is_missing_is_named(nodes: list[Any], pods: list[Any], says: str) -> None:
    """A node or pod that isn't Ready, is absent, or was last seen before the power cut is not ready."""
    found = troubles(nodes, pods, {"controller-1": _BOOT})
    assert len(found) == 1
    assert found[0].startswith(says)


def test_a_machine_that_is_off_is_never_ready() -> None:
    """Whatever the API still says of it."""
    assert len(troubles([_node()], _PODS, {"controller-1": math.inf})) == 5


def test_pods_that_are_going_do_not_matter() -> None:
    """A pod that is being deleted, or has done its work, keeps nobody waiting."""
    going = _pod("going", ready="False", deletionTimestamp="2023-11-14T22:13:30Z")
    done = _pod("done", ready="False")
    done["status"]["phase"] = "Succeeded"
    assert troubles([_node()], [*_PODS, going, done], {"controller-1": _BOOT}) == []
