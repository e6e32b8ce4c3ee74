"""Whether the gate of kube-apiserver can ask each instance."""

from __future__ import annotations

from tests.unit.preflight.conftest import World
from upgrader.errors import ApiError, ApiUnavailable
from upgrader.preflight.context import DEPLOYMENTS
from upgrader.preflight.instances import check_instances

DIRECT = "https://10.0.0.2:6443/readyz"
PROXIED = "/api/v1/namespaces/kube-system/pods/https:kube-apiserver-abc:6443/proxy/readyz"


def test_reachable_instances(world: World) -> None:
    """They are asked at their nodes' own address; one that isn't healthy answers all the same."""
    world.kube.raw_answers = {DIRECT: "ok"}
    assert world.find(check_instances) == {}
    world.kube.raw_answers = {DIRECT: ApiError("HTTP 500 [-]etcd failed")}
    assert world.find(check_instances) == {}


def test_instance_behind_a_load_balancer(world: World) -> None:
    """A machine that reaches only the load balancer has it asked through the API, and is told so."""
    world.kube.raw_answers = {DIRECT: ApiUnavailable("timed out"), PROXIED: "ok"}
    found = world.find(check_instances)["instances.proxied"]
    assert (found.severity, "https://10.0.0.2:6443" in found.title) == ("info", True)


def test_instance_that_cannot_be_asked_refuses_the_run(world: World) -> None:
    """Its gate would never pass: a healthy upgrade would be rolled back."""
    world.kube.raw_answers = {DIRECT: ApiUnavailable("timed out"), PROXIED: ApiError("HTTP 401 Unauthorized")}
    found = world.find(check_instances)["instances.unreachable"]
    assert (found.severity, "https://10.0.0.2:6443" in found.remedy) == ("error", True)


def test_port_that_only_the_kubelet_knows_refuses_the_run(world: World) -> None:
    """Its value is in a ConfigMap: it is told with what to do, and is no error of a conversion."""
    found = world.kube.get(DEPLOYMENTS, "kube-apiserver", "kube-system")
    assert found is not None
    container = found["spec"]["template"]["spec"]["containers"][0]
    container["name"], container["args"] = "kube-apiserver", ["kube-apiserver", "--secure-port=$(PORT)"]
    container["env"] = [{"name": "PORT", "valueFrom": {"configMapKeyRef": {"name": "ports", "key": "api"}}}]
    world.kube.put(DEPLOYMENTS, found, "kube-system")
    refused = world.find(check_instances)["instances.port"]
    assert refused.severity == "error" and "--secure-port=$(PORT)" in refused.title and "number" in refused.remedy
    container["env"] = [{"name": "PORT", "value": "6443"}]
    world.kube.put(DEPLOYMENTS, found, "kube-system")
    world.kube.raw_answers = {DIRECT: "ok"}
    assert world.find(check_instances) == {}


def test_no_deployment_no_instance(world: World) -> None:
    """A control plane that isn't there is another check's finding."""
    world.kube.delete(DEPLOYMENTS, "kube-apiserver", "kube-system")
    assert world.find(check_instances) == {}
