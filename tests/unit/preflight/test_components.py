"""The components: which versions run together, what they ask for, and whether etcd answers the planned one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.preflight.conftest import CONTROLLER, World, workload
from upgrader.model.etcd_client import EtcdClient
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.component_resources import check_resources
from upgrader.preflight.component_skew import check_components
from upgrader.preflight.context import DAEMONSETS, PODS
from upgrader.preflight.planned_etcd import check_planned_etcd

ENOUGH = {"requests": {"cpu": "1", "memory": "1Gi"}}


def runs(world: World, component: str, image: str, name: str = "", **meta: Any) -> None:
    """A pod of a component on the controller, with this image."""
    found = world.pod(name or f"{component}-abc", {"app": component}, flags=("--v=1",), **meta)
    found["spec"]["containers"][0]["image"] = image
    world.kube.put(PODS, found)


def proxies(world: World, tag: str) -> None:
    """The DaemonSet kube-proxy."""
    containers = [{"name": "kube-proxy", "image": f"registry.k8s.io/kube-proxy:{tag}"}]
    meta = {"name": "kube-proxy", "namespace": "kube-system"}
    world.kube.put(DAEMONSETS, {"metadata": meta, "spec": {"template": {"spec": {"containers": containers}}}})


@pytest.mark.parametrize("tag", ["stable", "v0.33.5"])
def test_components_of_one_minor(world: World, tag: str) -> None:
    """Patches may differ; images of one's own names, or of a project with own numbers, tell nothing."""
    runs(world, "kube-apiserver", "registry.k8s.io/kube-apiserver:v1.36.3")
    runs(world, "kube-scheduler", "example.com:5000/kube-scheduler:v1.36.1@sha256:aa")
    runs(world, "kube-controller-manager", f"example.com:5000/mine:{tag}")
    proxies(world, "v1.34.0")
    assert world.find(check_components) == {}


@pytest.mark.parametrize(
    ("component", "tag", "id_"),
    [
        ("kube-scheduler", "v1.37.0", "components.newer"),
        ("kube-controller-manager", "v1.34.9", "components.older"),
        ("kube-proxy", "v1.37.0", "components.newer"),
        ("kube-proxy", "v1.33.0", "components.older"),
    ],
)
def test_component_of_another_minor(world: World, component: str, tag: str, id_: str) -> None:
    """Newer than the API server, or too old for the target: a warning with its version."""
    if component == "kube-proxy":
        proxies(world, tag)
    else:
        runs(world, component, f"registry.k8s.io/{component}:{tag}")
    found = world.find(check_components)
    assert found.keys() == {id_} and found[id_].severity == "warning"
    assert component in found[id_].title and tag in found[id_].diagnosis


def test_two_versions_of_the_api(world: World) -> None:
    """What an upgrade that stopped leaves behind; a checkpoint's pod, or one that ends, is none of them."""
    runs(world, "kube-apiserver", "registry.k8s.io/kube-apiserver:v1.36.3")
    ends = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    runs(world, "kube-apiserver", "registry.k8s.io/kube-apiserver:v1.37.1", "kube-apiserver-old", **ends)
    assert world.find(check_components) == {}
    world.controller("controller-2")
    found = world.pod("kube-apiserver-2", {"app": "kube-apiserver"}, flags=("--v=1",))
    found["spec"]["nodeName"] = "controller-2"
    found["spec"]["containers"][0]["image"] = "registry.k8s.io/kube-apiserver:v1.37.1"
    world.kube.put(PODS, found)
    assert "controller-2: v1.37.1" in world.find(check_components)["components.mixed"].diagnosis


@pytest.mark.parametrize(
    ("resources", "id_", "severity"),
    [
        (ENOUGH, "", ""),
        ({"limits": {"memory": "2Gi"}, "requests": {"cpu": "1"}}, "", ""),
        ({}, "resources.no-request", "warning"),
        ({"requests": {"cpu": "1"}}, "resources.no-request", "warning"),
        ({**ENOUGH, "limits": {"cpu": "2"}}, "resources.cpu-limit", "warning"),
        ({**ENOUGH, "limits": {"cpu": "100m"}}, "resources.cpu-limit", "warning"),
        ({**ENOUGH, "limits": {"cpu": "50m"}}, "resources.low-cpu-limit", "error"),
        ({**ENOUGH, "limits": {"cpu": 0.05}}, "resources.low-cpu-limit", "error"),
        ({**ENOUGH, "limits": {"memory": "256Mi"}}, "resources.memory-limit", "error"),
    ],
)
def test_requests_and_limits(world: World, resources: dict[str, Any], id_: str, severity: str) -> None:
    """Of kube-apiserver itself; what stands beside it in the pod is the chart's concern."""
    world.manifests["kube-apiserver"] = workload({"name": "kube-apiserver", "resources": resources}, {"name": "side"})
    found = world.find(check_resources)
    assert [(item.id, item.severity) for item in found.values()] == ([(id_, severity)] if id_ else [])


def test_limit_of_a_smaller_component(world: World) -> None:
    """A scheduler needs less memory and CPU than an API server."""
    limits = {**ENOUGH, "limits": {"memory": "256Mi", "cpu": "50m"}}
    world.manifests["kubernetes"] = workload({"name": "kube-scheduler", "resources": limits})
    assert list(world.find(check_resources)) == ["resources.cpu-limit"]


def test_components_of_other_control_planes_are_not_judged(world: World) -> None:
    """A release of the operator's own may run a tenant's API server in a pod, with limits for that one."""
    limits = {"limits": {"memory": "64Mi", "cpu": "50m"}}
    world.manifests["tenant"] = workload({"name": "kube-apiserver", "resources": limits})
    assert world.find(check_resources) == {}


ETCD = "--etcd-servers=https://10.0.0.2:2379,https://10.0.0.3:2379"
FILES = ("--etcd-cafile=/pki/ca.crt", "--etcd-certfile=/pki/client.crt", "--etcd-keyfile=/pki/client.key")


def plan(world: World, *flags: str) -> None:
    """A kube-apiserver with these flags is to be installed."""
    container = {"name": "kube-apiserver", "command": ["kube-apiserver", *flags]}
    world.manifests["kube-apiserver"] = workload(container)


def test_etcd_that_answers_the_planned_kube_apiserver(world: World) -> None:
    """Each controller asks every address of the flags, with the files of the flags; etcd of events is one, too."""
    plan(world, ETCD, "--etcd-servers-overrides=/events#https://10.0.0.2:2381", *FILES)
    every = ("https://10.0.0.2:2379", "https://10.0.0.3:2379", "https://10.0.0.2:2381")
    world.etcd = dict.fromkeys(every, "")
    assert world.find(check_planned_etcd) == {}
    assert world.asked == [(CONTROLLER, EtcdClient(every, "/pki/ca.crt", "/pki/client.crt", "/pki/client.key"))]


def test_address_at_which_no_etcd_answers(world: World) -> None:
    """With the others silent, kube-apiserver can't start: an error. With one of them, it can."""
    plan(world, ETCD, *FILES)
    world.etcd = {"https://10.0.0.2:2379": ""}
    found = world.find(check_planned_etcd)["planned-etcd.unanswered"]
    assert found.severity == "warning" and found.title.endswith("kube-apiserver at https://10.0.0.3:2379")
    world.etcd = {}
    found = world.find(check_planned_etcd)["planned-etcd.unanswered"]
    assert found.severity == "error" and "https://10.0.0.3:2379: refused" in found.diagnosis


def test_etcd_of_events_that_does_not_answer(world: World) -> None:
    """kube-apiserver needs each of them: that the other one answers is no comfort."""
    plan(world, ETCD, "--etcd-servers-overrides=/events#https://10.0.0.2:2381;https://10.0.0.3:2381", *FILES)
    world.etcd = dict.fromkeys(("https://10.0.0.2:2379", "https://10.0.0.3:2379"), "")
    assert world.find(check_planned_etcd)["planned-etcd.unanswered"].severity == "error"
    world.etcd["https://10.0.0.3:2381"] = ""
    assert world.find(check_planned_etcd)["planned-etcd.unanswered"].severity == "warning"


def test_etcd_that_can_not_be_asked(world: World) -> None:
    """Files that are in a Secret are on no controller: what wasn't tried is said."""
    plan(world, ETCD, *FILES)
    world.etcd_files = False
    assert world.find(check_planned_etcd)["planned-etcd.unread"].severity == "info"
    world.facts.clear()
    assert world.find(check_planned_etcd) == {}, "that it can't be examined is another finding"


def test_nothing_is_asked_without_a_change(world: World) -> None:
    """kube-apiserver as it is proves every day that etcd answers it."""
    assert world.find(check_planned_etcd) == {} and world.asked == []
    plan(world, "--v=1")
    assert world.find(check_planned_etcd) == {} and world.asked == []


def test_target_that_is_two_minors_ahead(world: World) -> None:
    """That finding is the version's; a controller-manager of the running minor is not too old for it."""
    world.target = KubernetesVersion(1, 38, 0)
    runs(world, "kube-controller-manager", "registry.k8s.io/kube-controller-manager:v1.36.3")
    assert world.find(check_components) == {}
