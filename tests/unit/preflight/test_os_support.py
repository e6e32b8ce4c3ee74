"""What kubelets need of the systems that they run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.unit.preflight.conftest import CONTROLLER, World
from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.model.node_configuration import ContainerRuntime, NodeConfiguration
from upgrader.model.node_settings import NodePool, NodeSource
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.context import NODES
from upgrader.preflight.os_lifecycle import known_systems
from upgrader.preflight.os_support import check_os_support
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.step_document import NodeChange

V = KubernetesVersion
OLD, NEW = V(1, 34, 4), V(1, 35, 4)


@pytest.fixture
def world(world: World) -> World:
    """A controller whose cgroups are of version 2."""
    world.controller(cgroups={"version": 2})
    return world


def reports(world: World, **info: str) -> None:
    """Let the controller's node report another system."""
    node = world.node()
    node["status"]["nodeInfo"].update(info)
    world.kube.put(NODES, node)


def found(
    world: World,
    *,
    before: KubernetesVersion = OLD,
    after: KubernetesVersion | None = None,
    runtime: ContainerRuntime | None = None,
    kubelet: Mapping[str, Any] | None = None,
) -> list[Finding]:
    """What the check finds, by the controller's kubelet, before and after the run, which may bring a containerd and
    fields of the kubelet's configuration.
    """
    world.kubelet(before)
    context = world.context()
    assert context.plan is not None
    if after is not None:
        change = (NodeChange(CONTROLLER, before, after),)
        step = PlannedNodes(NodePool("x"), change, after, NodeSource("packages"), 300.0, 1, Path("/playbooks"))
        step = replace(step, configuration=NodeConfiguration(kubelet or {}, runtime))
        context = replace(context, plan=replace(context.plan, steps=(step,)))
    return list(run_checks(context, [("os-support", check_os_support)]))


@pytest.mark.parametrize("image", ["Debian GNU/Linux 12 (bookworm)", "Debian GNU/Linux 13 (trixie)"])
def test_supported_system_is_no_finding(world: World, image: str) -> None:
    """Also where its kubelet comes to the newest minor."""
    reports(world, osImage=image)
    assert found(world, before=V(1, 36, 3), after=V(1, 37, 1)) == []


@pytest.mark.parametrize(
    ("image", "end"),
    [
        ("Debian GNU/Linux 10 (buster)", "2024-06-30"),
        ("Ubuntu 20.04.6 LTS", "2025-05-31"),
        ("Red Hat Enterprise Linux Server 7.9 (Maipo)", "2024-06-30"),
        ("SUSE Linux Enterprise Server 15 SP4", "2023-12-31"),
    ],
)
def test_system_without_updates(world: World, image: str, end: str) -> None:
    """By the last day on which everyone gets them; it is named with its nodes."""
    reports(world, osImage=image)
    (finding,) = found(world)
    assert (finding.id, finding.severity) == ("os-support.ended", "warning")
    assert finding.title == f"{image} has had no security updates since {end}: {CONTROLLER}"


@pytest.mark.parametrize(
    "info",
    [
        {"osImage": "Homemade Linux 3"},
        {"osImage": "Debian GNU/Linux 99 (later)"},
        {"osImage": "Debian GNU/Linux bookworm/sid"},
        {"osImage": ""},
        {"kernelVersion": "own-build"},
        {"kernelVersion": ""},
    ],
)
def test_system_that_the_table_lacks_is_not_healthy(world: World, info: dict[str, str]) -> None:
    """Nothing is guessed: it is told that nothing is known."""
    reports(world, **info)
    (finding,) = found(world)
    assert (finding.id, finding.severity) == ("os-support.not-known", "info")
    assert CONTROLLER in finding.title
    assert str(known_systems().made) in finding.diagnosis


@pytest.mark.parametrize(
    ("kernel", "kubelet", "expected"),
    [
        ("4.18.0-553.el8", V(1, 33, 1), ["os-support.kernel"]),
        ("4.19.0-27-amd64", V(1, 33, 1), []),
        ("4.19.0-27-amd64", V(1, 34, 1), ["os-support.kernel"]),
        ("5.14.0-427.el9", V(1, 37, 1), []),
        ("10.0.1", V(1, 37, 1), []),
    ],
)
def test_kernel_that_is_too_old(world: World, kernel: str, kubelet: KubernetesVersion, expected: list[str]) -> None:
    """As kubeadm of the kubelet's minor warns."""
    reports(world, kernelVersion=kernel)
    assert [item.id for item in found(world, before=kubelet)] == expected


@pytest.mark.parametrize(
    ("runtime", "after", "severities"),
    [
        ("containerd://1.6.20~ds1", V(1, 37, 1), ["warning"]),
        ("containerd://1.7.29", V(1, 38, 0), ["error"]),
        ("containerd://2.0.0-rc.1", V(1, 38, 0), []),
        ("cri-o://1.36.0", V(1, 38, 0), []),
    ],
)
def test_containerd_that_kubelets_will_refuse(
    world: World, runtime: str, after: KubernetesVersion, severities: list[str]
) -> None:
    """A warning until the kubelet comes to that minor, and an error then."""
    reports(world, containerRuntimeVersion=runtime)
    seen = found(world, before=V(1, 37, 1), after=after)
    assert [item.severity for item in seen] == severities
    assert {item.id for item in seen} <= {"os-support.containerd"}


@pytest.mark.parametrize(
    ("fail", "before", "after", "severities"),
    [
        (None, OLD, None, ["warning"]),
        (None, OLD, NEW, ["error"]),
        (True, OLD, NEW, ["error"]),
        (False, OLD, NEW, ["warning"]),
        # It runs: what it was started with isn't in that file.
        (None, NEW, V(1, 36, 3), ["warning"]),
    ],
)
def test_cgroups_of_version_1(
    world: World,
    fail: bool | None,
    before: KubernetesVersion,
    after: KubernetesVersion | None,
    severities: list[str],
) -> None:
    """An error where the new kubelet would not start: it comes from before v1.35, and nothing allows version 1."""
    world.node()
    world.controller(cgroups={"version": 1, "fail_v1": fail})
    seen = found(world, before=before, after=after)
    assert [(item.id, item.severity) for item in seen] == [("os-support.cgroup-v1", each) for each in severities]


@pytest.mark.parametrize(("fails", "severity"), [(False, "warning"), (True, "error")])
def test_cgroups_of_version_1_that_the_upgrade_itself_allows(world: World, fails: bool, severity: str) -> None:
    """`nodes.kubeletConfiguration` is written before the new kubelet starts."""
    world.node()
    world.controller(cgroups={"version": 1, "fail_v1": None})
    (seen,) = found(world, after=NEW, kubelet={"failCgroupV1": fails})
    assert (seen.id, seen.severity) == ("os-support.cgroup-v1", severity)


def test_cgroups_that_nobody_was_asked_for(world: World) -> None:
    """Told where a new kubelet may refuse them, and only there."""
    world.node()
    world.controller(cgroups={"unknown": "the folder /sys/fs/cgroup does not exist"})
    assert found(world) == []
    (finding,) = found(world, after=NEW)
    assert (finding.id, finding.severity) == ("os-support.cgroups-unknown", "info")
    world.cluster = replace(world.cluster, controllers=(), workers=(Host(CONTROLLER, "10.0.0.2"),))
    assert [item.id for item in found(world, after=NEW)] == ["os-support.cgroups-unknown"]


def test_many_nodes_of_a_kind_are_one_finding(world: World) -> None:
    """The title names three of them."""
    for number in range(5):
        node = world.node(f"node-{number}")
        node["status"]["nodeInfo"]["osImage"] = "Debian GNU/Linux 11 (bullseye)"
        world.kube.put(NODES, node)
    world.observed = replace(world.observed, kubelets={f"node-{number}": OLD for number in range(5)})
    context = replace(world.context(), clock=world.clock)
    world.clock.sleep((date(2026, 11, 23) - world.clock.now().date()).total_seconds())
    (finding,) = run_checks(context, [("os-support", check_os_support)])
    assert finding.title.endswith("node-0, node-1, node-2 and 2 more")


def test_node_that_never_reported_is_no_finding_here(world: World) -> None:
    """`nodes.unknown` says so."""
    world.kube.put(NODES, {"metadata": {"name": "new"}, "spec": {}, "status": {}})
    world.observed = replace(world.observed, kubelets={})
    assert list(check_os_support(world.context())) == []


def test_containerd_that_the_run_brings_counts(world: World) -> None:
    """It is there before the kubelet is; one that only gets another configuration stays as old as it is."""
    reports(world, containerRuntimeVersion="containerd://1.6.20~ds1")
    old, new = V(1, 36, 3), V(1, 37, 1)
    assert [item.id for item in found(world, before=old, after=new)] == ["os-support.containerd"]
    assert found(world, before=old, after=new, runtime=ContainerRuntime("2.1.4", "packages")) == []
    same = ContainerRuntime(config=Path("/c/containerd.toml"))
    assert [item.id for item in found(world, before=old, after=new, runtime=same)] == ["os-support.containerd"]
