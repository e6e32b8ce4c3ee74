"""The control plane and its releases."""

from __future__ import annotations

from datetime import timedelta

from tests.unit.preflight.conftest import World
from upgrader.model.workload import CHECKPOINT_OF
from upgrader.preflight.context import DEPLOYMENTS, PODS
from upgrader.preflight.control_plane import COMPONENTS, check_control_plane
from upgrader.preflight.releases import check_releases

MIRROR = {"kubernetes.io/config.mirror": "1"}


def test_kubeadms_static_pods_must_be_adopted_first(world: World) -> None:
    """A control plane of static pods is one finding, and its remedy is the command that adopts it."""
    for name in COMPONENTS:
        world.kube.delete(DEPLOYMENTS, name, "kube-system")
        world.pod(f"{name}-controller-1", {"component": name}, annotations=MIRROR)
    found = world.find(check_control_plane)
    assert found.keys() == {"control-plane.static"}
    assert found["control-plane.static"].remedy == "upgrader adopt"
    assert ", ".join(COMPONENTS) in found["control-plane.static"].title


def test_etcd_and_checkpoints_may_be_static_pods(world: World) -> None:
    """etcd stays kubeadm's, and the pod-checkpointer's copies are meant to be there."""
    world.pod("etcd-controller-1", {"component": "etcd"}, annotations=MIRROR)
    labels = {"component": "kube-apiserver", CHECKPOINT_OF: "kube-apiserver"}
    world.pod("kube-apiserver-checkpoint-controller-1", labels, annotations=MIRROR)
    assert world.find(check_control_plane) == {}


def test_a_deployment_removed_by_hand_is_a_warning(world: World) -> None:
    """The run installs it again, so it is not held up."""
    world.kube.delete(DEPLOYMENTS, "kube-scheduler", "kube-system")
    world.kube.delete(PODS, "kube-scheduler-abc", "kube-system")
    found = world.find(check_control_plane)["control-plane.missing"]
    assert (found.severity, "kube-system/kube-scheduler" in found.title) == ("warning", True)


def test_no_ready_pod_is_an_error_with_its_cause(world: World) -> None:
    """Without a controller-manager no rollout ever happens; the diagnosis says what its pod waits for."""
    world.pod("kube-controller-manager-abc", {"app": "kube-controller-manager"}, ready=False)
    found = world.find(check_control_plane)["control-plane.not-ready"]
    assert (found.severity, found.title) == ("error", "kube-controller-manager: 0 of 1 pods Ready")
    assert found.diagnosis == "kube-controller-manager-abc on controller-1: CrashLoopBackOff"


def test_a_checkpoint_does_not_count_as_the_server(world: World) -> None:
    """A server that runs only as a checkpoint has failed, though it carries the same labels."""
    world.kube.delete(PODS, "kube-apiserver-abc", "kube-system")
    world.pod("kube-apiserver-checkpoint", {"app": "kube-apiserver", CHECKPOINT_OF: "kube-apiserver"})
    assert world.find(check_control_plane)["control-plane.not-ready"].diagnosis == "It has no pods."


def test_what_an_unfinished_rollout_left_is_a_warning(world: World) -> None:
    """A crash-looping pod beside a Ready one doesn't forbid the run that may mend it."""
    world.pod("kube-apiserver-new", {"app": "kube-apiserver"}, ready=False)
    found = world.find(check_control_plane)["control-plane.leftover"]
    assert (found.severity, "kube-apiserver-new" in found.title) == ("warning", True)


def test_a_pod_on_an_unlisted_machine_is_a_warning(world: World) -> None:
    """A control-plane pod on a machine that the inventory doesn't know can't be recovered over SSH."""
    pod = world.pod("kube-scheduler-abc", {"app": "kube-scheduler"})
    pod["spec"]["nodeName"] = "controller-2"
    world.kube.put(PODS, pod)
    assert "controller-2" in world.find(check_control_plane)["control-plane.astray"].title


def test_releases_that_are_not_there_or_well_are_fine(world: World) -> None:
    """A release that isn't installed has a way back: uninstalling it."""
    world.release("my-app")
    assert world.find(check_releases) == {}


def test_a_young_pending_release_is_left_alone(world: World) -> None:
    """It may be somebody's helm upgrade at this very moment."""
    world.helm.install("kubernetes", "", "pending-upgrade", updated=world.clock.now() - timedelta(seconds=20))
    world.release("kubernetes")
    found = world.find(check_releases)["releases.busy"]
    assert (found.severity, found.remedy) == ("error", "Run again when it is 300 s old.")


def test_a_pending_release_of_unknown_age_is_left_alone(world: World) -> None:
    """When nobody knows since when it is pending, it may be since now."""
    world.helm.install("kubernetes", "", "pending-upgrade")
    world.release("kubernetes")
    assert "releases.busy" in world.find(check_releases)


def test_an_old_pending_release_with_a_way_back_is_a_warning(world: World) -> None:
    """The step unsticks it by itself, and the finding says to which revision."""
    world.helm.install("kubernetes", "", "pending-upgrade", updated=world.clock.now() - timedelta(hours=1))
    world.release("kubernetes")
    found = world.find(check_releases)["releases.pending"]
    assert (found.severity, "revision 1 first" in found.remedy) == ("warning", True)


def test_an_old_pending_release_without_a_way_back_is_an_error(world: World) -> None:
    """Uninstalling it could take down what runs, so a person decides, and is told how to look."""
    world.helm.install("my-app", "", "pending-install", updated=world.clock.now() - timedelta(hours=1))
    world.release("my-app")
    found = world.find(check_releases)["releases.stuck"]
    assert found.severity == "error"
    assert "helm get manifest my-app" in found.remedy


def test_a_release_that_never_worked_is_a_warning(world: World) -> None:
    """A failed first installation may be tried again; its way back is to uninstall."""
    world.helm.install("my-app", "", "failed", description="image not found")
    world.release("my-app")
    assert "image not found" in world.find(check_releases)["releases.never-worked"].diagnosis


def test_a_failed_last_attempt_is_only_told(world: World) -> None:
    """The run goes on from the last revision that worked."""
    world.helm.install("kubernetes", "", "failed")
    world.release("kubernetes")
    assert world.find(check_releases)["releases.last-failed"].severity == "info"
