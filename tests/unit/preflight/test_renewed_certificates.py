"""Components that have run since before their kubeconfig's certificate was renewed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.preflight.conftest import World
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult
from upgrader.preflight.context import PODS
from upgrader.preflight.renewed_certificates import check_renewed

STARTED = datetime(2025, 12, 1, tzinfo=UTC)
"""When the fakes' containers did."""
CONF = "/etc/kubernetes/scheduler.conf"


def scheduler(world: World, **spec: Any) -> None:
    """A pod that reads its kubeconfig from a file of the controller."""
    pod = world.pod("kube-scheduler-x", {"app": "kube-scheduler"}, flags=(f"--kubeconfig={CONF}",))
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "conf", "mountPath": CONF}]
    pod["spec"] |= {"volumes": [{"name": "conf", "hostPath": {"path": CONF}}], **spec}
    world.kube.put(PODS, pod)


def changed(world: World, seconds: int) -> list[str]:
    """Let files have changed so long after the containers' start; returns those that are asked for."""
    asked: list[str] = []

    def stat(_: Host, command: Sequence[str], __: bytes) -> CommandResult:
        asked.append(command[-1])
        return CommandResult(0, f"{STARTED.timestamp() + seconds:.0f}\n", "")

    world.hosts.commands["stat"] = stat
    return asked


def test_file_from_before_the_start(world: World) -> None:
    """What the component has read is what the file has."""
    scheduler(world)
    assert changed(world, -1) == [] and world.find(check_renewed) == {}


def test_file_that_was_renewed_since(world: World) -> None:
    """A warning with both times, and with how the container is restarted without its pod being deleted."""
    scheduler(world)
    asked = changed(world, 3600)
    found = world.find(check_renewed)["certificates.not-in-use"]
    assert asked == [CONF]
    assert found.severity == "warning" and f"kube-scheduler-x has not read {CONF} since it changed" in found.title
    assert "2025-12-01 01:00:00 UTC" in found.diagnosis and "2025-12-01 00:00:00 UTC" in found.diagnosis
    assert found.remedy.endswith("crictl stop $(crictl ps --quiet --name '^kube-scheduler$')")


def test_file_below_a_folder_of_the_controller(world: World) -> None:
    """The path on the controller is asked for, not the one in the container."""
    scheduler(world, volumes=[{"name": "conf", "hostPath": {"path": "/srv/kube.conf"}}])
    asked = changed(world, -1)
    assert world.find(check_renewed) == {}
    assert asked == ["/srv/kube.conf"]


@pytest.mark.parametrize("volumes", [[], [{"name": "conf", "secret": {"secretName": "scheduler"}}]])
def test_kubeconfig_that_is_no_file_of_the_controller(world: World, volumes: list[dict[str, Any]]) -> None:
    """Of a Secret nothing is known here, and nothing is claimed."""
    scheduler(world, volumes=volumes)
    assert changed(world, 3600) == [] and world.find(check_renewed) == {}


def test_file_that_can_not_be_read_is_unknown(world: World) -> None:
    """It isn't taken for an old one."""
    scheduler(world)
    world.hosts.commands["stat"] = CommandResult(1, "", f"stat: cannot statx '{CONF}': Permission denied")
    found = world.find(check_renewed)["certificates.unknown"]
    assert found.severity == "unknown" and "Permission denied" in found.diagnosis


@pytest.mark.parametrize("text", ["²", "", "99999999999999999999"])
def test_time_that_is_none_is_unknown(world: World, text: str) -> None:
    """Whatever a controller's stat prints, the check ends."""
    scheduler(world)
    world.hosts.commands["stat"] = CommandResult(0, text, "")
    assert world.find(check_renewed)["certificates.unknown"].severity == "unknown"


def test_mount_below_another_one(world: World) -> None:
    """The deeper one is what the container sees, wherever it is in the list."""
    pod = world.pod("kube-scheduler-x", {"app": "kube-scheduler"}, flags=(f"--kubeconfig={CONF}",))
    mounts = [{"name": "all", "mountPath": "/etc"}, {"name": "conf", "mountPath": "/etc/kubernetes"}]
    pod["spec"]["containers"][0]["volumeMounts"] = mounts
    pod["spec"]["volumes"] = [{"name": "all", "hostPath": {"path": "/srv"}}, {"name": "conf", "secret": {}}]
    world.kube.put(PODS, pod)
    assert changed(world, 3600) == [] and world.find(check_renewed) == {}


def test_init_container_of_that_name(world: World) -> None:
    """It is none of the component's containers, whatever the pod calls it."""
    pod = world.pod("own", {"app": "own"})
    pod["status"]["initContainerStatuses"] = [
        {"name": "kube-scheduler", "ready": True, "state": {"running": {"startedAt": "2025-12-01T00:00:00Z"}}}
    ]
    world.kube.put(PODS, pod)
    assert changed(world, 3600) == [] and world.find(check_renewed) == {}


def test_pods_that_end_say_nothing(world: World) -> None:
    """A pod that is being deleted uses its old certificate for seconds more."""
    pod = world.pod(
        "kube-scheduler-x", {"app": "kube-scheduler"}, flags=(f"--kubeconfig={CONF}",), deletionTimestamp="2025-12-01"
    )
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "conf", "mountPath": CONF}]
    pod["spec"]["volumes"] = [{"name": "conf", "hostPath": {"path": CONF}}]
    assert changed(world, 3600) == [] and world.find(check_renewed) == {}
