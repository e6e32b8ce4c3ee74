"""The control plane and its releases."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import yaml

from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import container
from tests.unit.preflight.conftest import World
from upgrader.errors import ApiUnavailable
from upgrader.model.components import COMPONENTS
from upgrader.model.workload import CHECKPOINT_OF
from upgrader.ports import Kind
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.autoscalers import check_autoscalers
from upgrader.preflight.context import DEPLOYMENTS, NODES, PODS
from upgrader.preflight.control_plane import check_control_plane
from upgrader.preflight.other_writers import check_other_writers
from upgrader.preflight.releases import check_releases

MIRROR = {"kubernetes.io/config.mirror": "1"}


def test_kubeadms_static_pods_must_be_adopted_first(world: World) -> None:
    """A control plane of static pods is one finding, and its remedy is the command that adopts it."""
    for name in COMPONENTS:
        world.kube.delete(DEPLOYMENTS, name, "kube-system")
        world.pod(f"{name}-controller-1", {"component": name}, annotations=MIRROR)
    found = world.find(check_control_plane)
    assert found.keys() == {"control-plane.static"}
    assert found["control-plane.static"].remedy == "Move it into Helm releases: upgrader adopt"
    assert ", ".join(COMPONENTS) in found["control-plane.static"].title


def test_controller_that_kubeadm_has_joined_since_is_named(world: World) -> None:
    """The inventory doesn't know it, and no release reaches its static pods: each such node is an error of its own."""
    labels = {"node-role.kubernetes.io/control-plane": ""}
    world.kube.put(NODES, {"metadata": {"name": "controller-2", "labels": labels}})
    for name in COMPONENTS:
        pod = world.pod(f"{name}-controller-2", {"component": name}, annotations=MIRROR)
        world.kube.put(PODS, {**pod, "spec": {**pod["spec"], "nodeName": "controller-2"}})
    found = world.find(check_control_plane)
    assert found.keys() == {"control-plane.not-adopted"}
    finding = found["control-plane.not-adopted"]
    assert (finding.severity, finding.title) == (
        "error",
        f"controller-2: {', '.join(COMPONENTS)} run as static pods in addition to the releases",
    )


def test_manifest_that_kubeadm_has_written_again_is_named(world: World) -> None:
    """Beside the Deployment, on a controller that was adopted: what runs there twice is not left to the run."""
    world.pod("kube-scheduler-controller-1", {"component": "kube-scheduler"}, annotations=MIRROR)
    found = world.find(check_control_plane)
    assert found.keys() == {"control-plane.not-adopted"}
    assert found["control-plane.not-adopted"].title == (
        "controller-1: kube-scheduler run as static pods in addition to the releases"
    )
    remedy = found["control-plane.not-adopted"].remedy
    assert remedy.startswith("Adopt it: upgrader adopt --new-controllers.")


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


@pytest.mark.parametrize(
    ("state", "starting"),
    [
        ({"running": {"startedAt": 5}}, True),
        ({"running": {"startedAt": 600}}, False),
        ({"waiting": {"reason": "ContainerCreating"}}, False),  # for days, perhaps
        ({"waiting": {"reason": "CrashLoopBackOff"}}, False),
        ({"running": {"startedAt": 5}, "last": {"exitCode": 255}}, True),  # after a power cut
        ({"running": {"startedAt": 5}, "last": {"exitCode": 1}}, False),  # it crashes again and again
    ],
)
def test_pods_that_start_are_waited_for(world: World, state: dict[str, dict[str, Any]], starting: bool) -> None:
    """After a controller's boot nothing is broken: the remedy is to wait. What has failed, or has had its time, needs
    somebody who looks.
    """
    last = {"terminated": state["last"]} if "last" in state else None
    if "running" in state:
        since = world.clock.now() - timedelta(seconds=state["running"]["startedAt"])
        state = {"running": {"startedAt": f"{since:%Y-%m-%dT%H:%M:%SZ}"}}
    world.pod("kube-apiserver-abc", {"app": "kube-apiserver"}, ready=False)
    pod = dict(world.kube.get(PODS, "kube-apiserver-abc", "kube-system") or {})
    pod["status"] = {**pod["status"], "containerStatuses": [container("kube-apiserver", state, ready=False, last=last)]}
    world.kube.put(PODS, pod)
    found = world.find(check_control_plane)["control-plane.not-ready"]
    assert found.remedy.startswith("They are starting") is starting
    assert "kubectl -n kube-system describe pods" in found.remedy


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
    assert "controller-2" in world.find(check_control_plane)["control-plane.unexpected"].title


def test_releases_that_are_not_there_or_well_are_fine(world: World) -> None:
    """A release that isn't installed has a way back: uninstalling it."""
    world.release("my-app")
    assert world.find(check_releases) == {}


def serves(kube: FakeKube, path: str, *resources: tuple[str, str, bool]) -> None:
    """Discovery of a group version: plural, kind, and whether it is namespaced."""
    found = [{"name": name, "kind": kind, "namespaced": namespaced} for name, kind, namespaced in resources]
    kube.raw_answers[path] = json.dumps({"resources": [*found, {**found[0], "name": f"{found[0]['name']}/status"}]})


@pytest.mark.parametrize("owner", ["kube-apiserver", "somebody-else", ""])
def test_a_release_whose_records_are_lost_is_not_installed_over_what_serves(world: World, owner: str) -> None:
    """Its rollback would be to uninstall kube-apiserver. What says that it is another release's is Helm's to refuse."""
    found = world.kube.get(DEPLOYMENTS, "kube-apiserver", "kube-system")
    assert found is not None
    notes = {"meta.helm.sh/release-name": owner, "meta.helm.sh/release-namespace": "kube-system"} if owner else None
    world.kube.put(DEPLOYMENTS, {**found, "metadata": {**found["metadata"], "annotations": notes}}, "kube-system")
    planned = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "kube-apiserver"}}
    world.manifests["kube-apiserver"] = yaml.safe_dump(planned)
    serves(world.kube, "/apis/apps/v1", ("deployments", "Deployment", True))
    assert world.find(check_releases) == {}
    world.helm.releases.clear()
    world.release("kube-apiserver")
    findings = world.find(check_releases)
    assert findings.keys() == ({"releases.no-records"} if owner == "kube-apiserver" else set())
    if findings:
        lost = findings["releases.no-records"]
        assert lost.severity == "error" and "Deployment kube-system/kube-apiserver" in lost.title
        assert "HELM_DRIVER" in lost.remedy


@pytest.mark.parametrize("says", ["ok", "[]", '{"resources": 1}', '{"resources": [{}]}', "[" * 100_000])
def test_what_is_served_can_not_be_read(world: World, says: str) -> None:
    """A proxy's own words don't say that nothing of a release is there: it is unknown."""
    world.manifests["web"] = yaml.safe_dump({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"}})
    world.release("web")
    world.kube.raw_answers["/api/v1"] = says
    (found,) = world.find(check_releases).values()
    assert found.blocking and "/api/v1 can't be read" in found.diagnosis


def test_a_release_of_definitions_whose_records_are_lost(world: World) -> None:
    """It has no workload: to uninstall it would remove all objects of its kinds. What the API doesn't serve yet, or
    what gets its name from the API, isn't there.
    """
    kind = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
    meta = {"name": "queues.example.com"}
    notes = {"meta.helm.sh/release-name": "queues", "meta.helm.sh/release-namespace": "kube-system"}
    definition = {"apiVersion": kind.api_version, "kind": "CustomResourceDefinition", "metadata": meta}
    queue = {"apiVersion": "example.com/v1", "kind": "Queue", "metadata": {"name": "one"}}
    unnamed = {**definition, "metadata": {"generateName": "x-"}}
    world.manifests["queues"] = yaml.safe_dump_all([queue, unnamed, definition])
    world.release("queues")
    serves(world.kube, f"/apis/{kind.api_version}", (kind.plural, "CustomResourceDefinition", False))
    assert world.find(check_releases) == {}
    world.kube.put(kind, {**definition, "metadata": {**meta, "annotations": notes}})
    found = world.find(check_releases)["releases.no-records"]
    assert found.blocking and "CustomResourceDefinition queues.example.com is labelled as part of it" in found.title


@pytest.mark.parametrize(("before", "planned"), [("keep", " Keep"), ("keep", ""), ("", "keep")])
def test_what_an_uninstall_has_kept_is_installed_over(world: World, before: str, planned: str) -> None:
    """A chart's `helm.sh/resource-policy: keep` leaves an object behind, as guard's definitions: no records are lost,
    and a rollback keeps it again. What the planned chart wouldn't keep, a rollback would remove.
    """
    kind = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
    meta = {"name": "queues.example.com", "annotations": {"helm.sh/resource-policy": planned}}
    definition = {"apiVersion": kind.api_version, "kind": "CustomResourceDefinition", "metadata": meta}
    world.manifests["queues"] = yaml.safe_dump(definition)
    world.release("queues")
    serves(world.kube, f"/apis/{kind.api_version}", (kind.plural, "CustomResourceDefinition", False))
    notes = {"meta.helm.sh/release-name": "queues", "meta.helm.sh/release-namespace": "kube-system"}
    kept = {**notes, "helm.sh/resource-policy": before}
    world.kube.put(kind, {**definition, "metadata": {**meta, "annotations": kept}})
    found = world.find(check_releases)
    assert found.keys() == (set() if before and planned else {"releases.no-records"})


def test_kinds_that_the_api_does_not_tell(world: World) -> None:
    """Whether objects of it exist isn't known then, so the check fails, and a run doesn't begin."""
    world.manifests["my-app"] = yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
    world.release("my-app")
    world.kube.raw_answers["/api/v1"] = ApiUnavailable("HTTP 503")
    assert world.find(check_releases).keys() == {"family.unknown"}


def test_a_young_pending_release_is_left_alone(world: World) -> None:
    """It may be somebody's helm upgrade at this very moment."""
    world.helm.install("kubernetes", "", "pending-upgrade", updated=world.clock.now() - timedelta(seconds=20))
    world.release("kubernetes")
    found = world.find(check_releases)["releases.busy"]
    assert (found.severity, found.remedy) == ("error", "Run the same command again when the revision is 360 s old.")


def test_a_release_that_a_run_works_on_is_named_so(world: World) -> None:
    """During one's own rollback, `plan` names the run: no stranger's Helm is looked for."""
    world.helm.install("kubernetes", "", "pending-rollback", updated=world.clock.now() - timedelta(seconds=20))
    world.release("kubernetes")
    run = "anna@laptop (process 42, 5f0c), 20260102T000000-v1.37.1: undo kubernetes"
    context = replace(world.context(), run_at_work=lambda: run)
    (found,) = run_checks(context, [("releases", check_releases)])
    assert found.id == "releases.busy" and run in found.diagnosis and "another Helm" not in found.diagnosis
    assert "upgrader status" in found.diagnosis


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
    found = world.find(check_releases)["releases.never-worked"]
    assert "image not found" in found.diagnosis
    assert found.blocking, "it may serve all the same, and a rollback would uninstall it"
    assert "--wait" in found.remedy and "helm uninstall" not in found.remedy


def test_a_failed_last_attempt_is_only_told(world: World) -> None:
    """The run goes on from the last revision that worked."""
    world.helm.install("kubernetes", "", "failed")
    world.release("kubernetes")
    assert world.find(check_releases)["releases.last-failed"].severity == "info"


def test_an_attempt_that_no_run_saw_healthy_is_told_as_a_failed_one(world: World) -> None:
    """Helm, which hasn't waited for it, calls it deployed."""
    world.helm.install("kubernetes", "")
    world.helm.releases["kubernetes"] = [
        replace(each, unseen=each.number == 2) for each in world.helm.releases["kubernetes"]
    ]
    world.release("kubernetes")
    found = world.find(check_releases)["releases.last-failed"]
    assert "(revision 2) is 'deployed, but no run has found it healthy'" in found.title
    assert "The last revision that worked is 1" in found.diagnosis


@pytest.mark.parametrize(("replicas", "refused"), [(1, False), (2, True), (0, True)])
def test_one_instance_on_each_controller(world: World, replicas: int, refused: bool) -> None:
    """With any other number the gate of kube-apiserver never passes: the run is refused before it changes anything."""
    world.manifests["kube-apiserver"] = (
        f"{{kind: Deployment, metadata: {{name: kube-apiserver}}, spec: {{replicas: {replicas}}}}}\n---\n"
        "{kind: Service, metadata: {name: kube-apiserver}}"
    )
    found = world.find(check_control_plane)
    assert (found.keys() == {"control-plane.replicas"}) is refused
    if refused:
        assert "replicas: 1" in found["control-plane.replicas"].remedy


@pytest.mark.parametrize(
    ("before", "now", "reconciler", "warned"),
    [(3, 3, "lease", True), (1, 3, "lease", False), (1, 1, "none", False), (3, 3, "none", False)],
)
def test_endpoint_that_was_kept_for_the_change_to_several(
    world: World, before: int, now: int, reconciler: str, warned: bool
) -> None:
    """Once the instances register themselves, a controller that dies would stay behind Service `kubernetes`."""
    endpoint = """
---
kind: EndpointSlice
metadata: {name: kube-apiserver, namespace: default}
endpoints: [{addresses: [10.0.0.2]}]
"""
    manifest = (
        "kind: Deployment\nmetadata: {name: kube-apiserver}\nspec: {replicas: %d, template: {spec: {containers: "
        "[{name: kube-apiserver, args: [--endpoint-reconciler-type=%s]}]}}}\n"
    )
    world.manifests["kube-apiserver"] = manifest % (now, reconciler) + endpoint
    world.before["kube-apiserver"] = manifest % (before, "lease" if before > 1 else "none")
    found = world.find(check_control_plane)
    assert ("control-plane.endpoints" in found) is warned
    if warned:
        finding = found["control-plane.endpoints"]
        assert finding.severity == "warning" and "10.0.0.2" in finding.title
        assert "endpoints.addresses" in finding.remedy


@pytest.mark.parametrize(
    ("manager", "operation", "warned"),
    [
        ("argocd-controller", "Update", True),
        ("helm-controller", "Update", True),
        ("some-operator", "Apply", True),
        ("some-operator", "Update", False),
        ("kubectl", "Apply", False),
        ("helm", "Apply", False),
    ],
)
def test_workload_that_a_gitops_controller_declares(world: World, manager: str, operation: str, warned: bool) -> None:
    """Who applies it again and again is named before the run, with how to pause it; who has written once isn't."""
    meta = {"name": "coredns", "namespace": "kube-system"}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {"template": {}}}
    owned = {"manager": manager, "operation": operation, "fieldsV1": {"f:spec": {"f:template": {}}}}
    world.kube.put(DEPLOYMENTS, {**manifest, "metadata": {**meta, "managedFields": [owned]}}, "kube-system")
    assert world.find(check_other_writers) == {}, "the release doesn't change"
    world.manifests["kubernetes"] = yaml.safe_dump(manifest)
    found = world.find(check_other_writers)
    assert ("releases.other-writer" in found) is warned
    if warned:
        assert f"release kubernetes: field manager {manager} also declares Deployment kube-system/coredns" in (
            found["releases.other-writer"].title
        )


def test_many_workloads_of_a_release_are_one_list(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chart with forty Deployments costs a request, not forty, and each that is declared is counted."""
    owned = {"manager": "argocd-controller", "operation": "Apply", "fieldsV1": {"f:spec": {"f:template": {}}}}
    manifests = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": f"web-{number}"}, "spec": {"template": {}}}
        for number in range(40)
    ]
    for each in manifests:
        live = {**each, "metadata": {**each["metadata"], "managedFields": [owned]}}  # type: ignore[dict-item]
        world.kube.put(DEPLOYMENTS, live, "kube-system")
    world.manifests["kubernetes"] = yaml.safe_dump_all(manifests)
    monkeypatch.setattr(world.kube, "get", None)
    assert "Deployment kube-system/web-0" in world.find(check_other_writers)["releases.other-writer"].title


@pytest.mark.parametrize(
    ("manager", "replicas", "warned"),
    [("kube-controller-manager", 5, True), ("kube-controller-manager", 2, False), ("helm", 5, False)],
)
def test_number_of_pods_that_an_autoscaler_set(world: World, manager: str, replicas: int, warned: bool) -> None:
    """A release that would reset it is named, with the value that leaves it alone."""
    meta = {"name": "coredns", "namespace": "kube-system"}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {"replicas": 2}}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    owned = {"manager": manager, "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    live = {
        **manifest,
        "metadata": {**meta, "managedFields": [{"manager": "x"}, owned]},
        "spec": {"replicas": replicas},
    }
    world.kube.put(DEPLOYMENTS, live, "kube-system")
    assert world.find(check_autoscalers) == {}, "the release doesn't change"
    world.manifests["kubernetes"] = yaml.safe_dump_all([settings, manifest])
    found = world.find(check_autoscalers)
    assert ("autoscalers.reset" in found) is warned
    if warned:
        assert "set by kube-controller-manager: release kubernetes resets them to 2" in found["autoscalers.reset"].title
