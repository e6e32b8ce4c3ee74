"""Pods whose images are pulled with their own credentials get no checkpoint: known before anything changes."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import yaml

from tests.unit.preflight.conftest import CONTROLLER, World
from upgrader.app import adoption
from upgrader.app.front_end import FrontEnd
from upgrader.errors import Blocked
from upgrader.gates.kubernetes_kinds import SECRETS, SERVICE_ACCOUNTS
from upgrader.model.check_ids import WORST_SEVERITY, may_be_overruled
from upgrader.model.finding import Finding
from upgrader.model.version import KubernetesVersion
from upgrader.ports import KubeObject
from upgrader.preflight.all_checks import CHECKS, run_checks
from upgrader.preflight.context import DAEMONSETS, MIRROR, PODS
from upgrader.preflight.pull_secrets import check_pull_secrets

ID = "pull-secrets.no-checkpoint"
IMAGE = "registry.example:5000/kube-apiserver:v1.37.1"
ASKS = {"checkpointer.upgrader.io/checkpoint": "true"}


def login(registry: str = "registry.example:5000") -> KubeObject:
    """The Secret with a login for a registry."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "registry-login", "namespace": "kube-system"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": json.dumps({"auths": {registry: {"auth": "eDp5"}}})},
    }


def workload(name: str, image: str, annotations: dict[str, str], **spec: Any) -> KubeObject:
    """A Deployment, as a chart renders it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {"containers": [{"name": name, "image": image}], **spec},
            }
        },
    }


def api_server(**spec: Any) -> KubeObject:
    """kube-apiserver's."""
    return workload("kube-apiserver", IMAGE, ASKS, **spec)


def checkpointer(*arguments: str) -> str:
    """The manifest of the pod-checkpointer; its own image needs no login."""
    found = workload("pod-checkpointer", "registry.k8s.io/pod-checkpointer:1", ASKS)
    found["spec"]["template"]["spec"]["containers"][0]["args"] = ["run", *arguments]
    return yaml.safe_dump({**found, "kind": "DaemonSet"})


def plan(world: World, *objects: KubeObject, release: str = "kube-apiserver") -> None:
    """Let a run install these objects."""
    world.manifests[release] = yaml.safe_dump_all(objects)


OWN = {"imagePullSecrets": [{"name": "registry-login"}]}


@pytest.fixture
def world(world: World) -> World:
    """A cluster whose kubelets keep records, with a registry's login, and a plan that uses it."""
    world.kube.put(SECRETS, login())
    world.kubelet(KubernetesVersion(1, 36, 3))
    world.manifests["pod-checkpointer"] = checkpointer("--namespace=kube-system")
    plan(world, api_server(**OWN))
    return world


def find(world: World) -> Finding | None:
    """The one finding."""
    found = world.find(check_pull_secrets)
    assert found.keys() <= {ID}
    return found.get(ID)


def test_a_secret_of_the_pods_blocks_the_run(world: World) -> None:
    """Workload, Secret and image are named, why there would be no checkpoint, and what to do."""
    found = find(world)
    assert found is not None and found.severity == "error"
    assert found.title == (
        "Deployment kube-system/kube-apiserver: Secret kube-system/registry-login would pull its images, so its pods "
        "would get no checkpoint"
    )
    assert found.diagnosis.startswith(
        f"imagePullSecrets of its pods names this Secret, which has a login for {IMAGE}. Since v1.35, the kubelet"
    )
    assert found.remedy.startswith("Give the nodes credentials for the registry instead")
    assert "remove imagePullSecrets from the values of release kube-apiserver." in found.remedy


def test_it_is_found_by_the_checks_of_a_run_and_may_be_skipped(world: World) -> None:
    """A skip, or upgrader.yaml, lets a run begin that is rolled back; nothing worse comes of it."""
    checks = [each for each in CHECKS if each[0] == "pull-secrets"]
    assert [each.id for each in run_checks(world.context(), checks)] == [ID]
    assert may_be_overruled(ID) and WORST_SEVERITY[ID] == "error"


@pytest.mark.parametrize("planned", [True, False], ids=["planned", "in the cluster"])
def test_a_secret_of_the_service_account_counts_too(world: World, planned: bool) -> None:
    """The API gives it to pods that name none."""
    meta = {"name": "default", "namespace": "kube-system"}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta, **OWN}
    if planned:
        plan(world, account, api_server())
    else:
        plan(world, api_server())
        world.kube.put(SERVICE_ACCOUNTS, account)
    found = find(world)
    assert found is not None
    assert found.diagnosis.startswith("imagePullSecrets of ServiceAccount kube-system/default names this Secret")
    assert "remove imagePullSecrets from ServiceAccount kube-system/default." in found.remedy


def test_a_secret_that_the_release_brings(world: World) -> None:
    """It isn't in the cluster before."""
    world.kube.delete(SECRETS, "registry-login", "kube-system")
    assert find(world) is None
    plan(world, login(), api_server(**OWN))
    assert find(world) is not None


@pytest.mark.parametrize(
    "arguments", [("--any-image",), ("--namespace=other",), ("--workload=kube-system/kube-scheduler",)]
)
def test_the_pod_checkpointer_decides(world: World, arguments: tuple[str, ...]) -> None:
    """One that doesn't read the kubelet's records, or keeps no checkpoint of this workload, refuses nothing."""
    world.manifests["pod-checkpointer"] = checkpointer(*arguments)
    assert find(world) is None
    world.manifests["pod-checkpointer"] = checkpointer("--workload=kube-system/kube-apiserver")
    assert find(world) is not None


def test_the_pod_checkpointer_that_runs_decides_where_none_is_planned(world: World) -> None:
    """Without any, there are no checkpoints, which is another finding."""
    del world.manifests["pod-checkpointer"]
    assert find(world) is not None
    world.kube.delete(DAEMONSETS, "pod-checkpointer", "kube-system")
    assert find(world) is None


def test_workload_without_a_checkpoint(world: World) -> None:
    """CoreDNS and others may pull as they like."""
    plan(world, workload("coredns", IMAGE, {}, **OWN))
    assert find(world) is None


def test_kubelets_that_keep_no_records(world: World) -> None:
    """Before v1.35, any pod may use an image that is on the node."""
    world.kubelet(KubernetesVersion(1, 34, 8))
    assert find(world) is None


def test_secret_for_another_registry(world: World) -> None:
    """The kubelet pulls with the node's credentials, or without any: there will be a checkpoint."""
    world.kube.put(SECRETS, login("other.example"))
    assert find(world) is None


def test_image_that_static_pods_use(world: World) -> None:
    """kubeadm's own was pulled with the node's credentials: pods that adoption starts use it, too."""
    static = world.pod("kube-apiserver-controller-1", {"app": "x"}, annotations={MIRROR: "hash"})
    static["spec"]["containers"][0]["image"] = IMAGE
    world.kube.put(PODS, static)
    assert find(world) is None
    world.controller("controller-2")
    assert find(world) is not None, f"only {CONTROLLER} has it"


@pytest.mark.parametrize(("policy", "pulled"), [("IfNotPresent", False), ("Always", True)])
def test_image_that_the_workload_has_already(world: World, policy: str, pulled: bool) -> None:
    """It is on the nodes, and its pods have checkpoints, or another check says that they don't."""
    before, after = api_server(), api_server(hostNetwork=True, **OWN)
    for item in (before, after):
        item["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = policy
    world.before["kube-apiserver"] = yaml.safe_dump(before)
    plan(world, after)
    assert (find(world) is not None) is pulled


def test_an_adoption_is_refused_before_it_changes_anything(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its other checks need no plan; this one knows what the adoption would install."""
    known = world.context()
    session = MagicMock()
    session.telling.return_value = session
    session.preflight_context.return_value = replace(known, plan=None)
    session.plan.return_value = known.plan
    for name in ("open_session", "cluster_lock"):
        monkeypatch.setattr(adoption, name, lambda *_, **__: nullcontext(session))
    for name in ("ReleaseKind", "adopting", "adopt_pipeline"):
        monkeypatch.setattr(adoption, name, MagicMock())
    monkeypatch.setattr(adoption, "is_adopted", lambda *_: False)
    monkeypatch.setattr(adoption, "_CHECKS", ())
    offered = adoption.Adoption(Path("/c"), FrontEnd(), MagicMock(), MagicMock(), KubernetesVersion(1, 36, 3))
    with offered.propose(take_over=False) as proposed, pytest.raises(Blocked) as refused:
        proposed.check_allowed()
    assert refused.value.message.startswith("a check blocks the adoption; the cluster was not changed\n" + ID)
    assert "Give the nodes credentials" in refused.value.remedy
