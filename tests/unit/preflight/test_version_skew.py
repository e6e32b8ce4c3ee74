"""Version skew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.preflight.conftest import CONTROLLER, V, World
from upgrader.model.node_settings import LeftAlone, NodeSource, NodesSettings
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.context import NODES
from upgrader.preflight.version_skew import check_controller_kubelets, check_version


@pytest.mark.parametrize("target", [V(1, 36, 3), V(1, 36, 9), V(1, 37, 0)])
def test_the_same_a_patch_and_the_next_minor_are_fine(world: World, target: KubernetesVersion) -> None:
    """What Kubernetes supports is not held up."""
    world.target = target
    assert world.find(check_version) == {}


@pytest.mark.parametrize("target", [V(1, 35, 9), V(1, 36, 2)])
def test_a_downgrade_is_an_error(world: World, target: KubernetesVersion) -> None:
    """Down is refused, even by a patch version, and the remedy names the lowest that is possible."""
    world.target = target
    found = world.find(check_version)["version.downgrade"]
    assert found.severity == "error"
    assert f"{target} is older than the running v1.36.3" in found.title
    assert "v1.36.3 or newer" in found.remedy


def test_a_kubelet_newer_than_the_target_is_an_error(world: World) -> None:
    """A kubelet must never be newer than its API server; a newer patch of the same minor is fine."""
    world.kubelet(V(1, 38, 0))
    assert world.find(check_version)["components.kubelet-newer"].severity == "error"
    world.kubelet(V(1, 36, 9))
    assert world.find(check_version) == {}


def test_a_kubelet_ahead_of_the_running_server_is_a_warning(world: World) -> None:
    """Somebody upgraded it first: not supported, and just what this upgrade ends."""
    world.kubelet(V(1, 37, 1))
    found = world.find(check_version)
    assert {name: item.severity for name, item in found.items()} == {"version.kubelet-ahead": "warning"}


@pytest.mark.parametrize(
    ("runtime", "severity"), [("containerd://2.2.1", "unknown"), ("kwok-v0.6.0", "warning"), ("", "warning")]
)
def test_kubelet_of_no_version(world: World, runtime: str, severity: str) -> None:
    """One of KWOK's nodes, or a Virtual Kubelet, blocks no run; a kubelet that runs containers has to be known."""
    info = {"kubeletVersion": "kwok-v0.6.0", "containerRuntimeVersion": runtime}
    world.kube.put(NODES, {"metadata": {"name": "virtual"}, "status": {"nodeInfo": info}})
    found = world.find(check_version)["version.kubelet-unknown"]
    assert (found.severity, found.title) == (
        severity,
        "the kubelet of virtual reports 'kwok-v0.6.0', which is not a Kubernetes version",
    )


def test_a_kubelet_may_be_three_minors_behind(world: World) -> None:
    """Three minors behind the target work, four don't."""
    world.kubelet(V(1, 34, 0))
    assert world.find(check_version) == {}
    world.kubelet(V(1, 33, 9))
    assert "4 minor versions behind v1.37.1" in world.find(check_version)["version.kubelet-older"].title


def test_kubelet_of_a_worker_that_is_down_may_be_too_old(world: World) -> None:
    """Nothing runs there; before it comes back, something is to be done, and the warning says what."""
    world.kubelet(V(1, 36, 3))
    world.observed = replace(world.observed, kubelets={**world.observed.kubelets, "worker-1": V(1, 33, 9)})
    world.node("worker-1")
    assert world.find(check_version)["version.kubelet-older"].severity == "error"
    world.down("worker-1")
    found = world.find(check_version)["version.kubelet-older"]
    assert found.severity == "warning" and "kubectl delete node worker-1" in found.remedy


def test_kubelet_that_is_left_alone_must_not_be_too_old(world: World) -> None:
    """It is refused by name, and the remedy doesn't say that a run could upgrade it."""
    world.kubelet(V(1, 33, 9))
    settings = NodesSettings(
        NodeSource("packages"), (), left_alone=(LeftAlone("upgrader.yaml:1", names=(CONTROLLER,)),)
    )
    (found,) = check_version(replace(world.context(), node_settings=settings))
    assert (found.id, found.severity) == ("version.kubelet-older", "error")
    assert f"the kubelet of {CONTROLLER} (v1.33.9) is 4 minor versions behind v1.37.1" in found.title
    assert found.remedy.startswith(
        f"Upgrade the kubelet of {CONTROLLER} first with the tool that manages it, because `nodes.leftAlone`"
    )
    labels = replace(settings, left_alone=(LeftAlone("upgrader.yaml:1", {"os": "windows"}),))
    (other,) = check_version(replace(world.context(), node_settings=labels))
    assert other.remedy == f"Upgrade the kubelet of {CONTROLLER} first."


@pytest.mark.parametrize(("kubelet", "refused"), [(V(1, 31, 9), True), (V(1, 32, 0), False), (V(1, 37, 1), False)])
def test_kubelet_of_a_controller_that_is_too_old(world: World, kubelet: KubernetesVersion, refused: bool) -> None:
    """The skew policy allows a kubelet of v1.31 beside v1.34; the pods of the charts are made for v1.32 and later."""
    world.kubelet(kubelet)
    found = world.find(check_controller_kubelets)
    assert (found.keys() == {"kubelets.too-old"}) is refused
    if refused:
        assert "to v1.32 or newer" in found["kubelets.too-old"].remedy


def test_workers_kubelet_may_be_older(world: World) -> None:
    """No kube-apiserver runs there."""
    world.observed = replace(world.observed, kubelets={**world.observed.kubelets, "worker-1": V(1, 31, 0)})
    assert world.find(check_controller_kubelets) == {}


def test_next_minor_while_this_one_emulates_is_an_error(world: World) -> None:
    """Finalize comes first; a patch of the same minor keeps the emulation."""
    world.observed = replace(world.observed, server=V(1, 37, 1), emulated=(1, 36))
    world.target = V(1, 38, 0)
    found = world.find(check_version)["version.emulating"]
    assert (found.severity, "upgrader finalize" in found.remedy) == ("error", True)
    world.target = V(1, 37, 4)
    assert world.find(check_version) == {}
