"""Checks of what a run would install, on a real API server: what it says of pods that are only tried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from testkit.lab_cluster import until
from tests.contract.checking import Make, checked, ids
from upgrader.adapters.kube import KubeAdapter
from upgrader.ports import Kind
from upgrader.preflight.admission import check_admission
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.autoscalers import check_autoscalers
from upgrader.preflight.component_resources import check_resources
from upgrader.preflight.control_plane import check_control_plane
from upgrader.preflight.other_writers import check_other_writers
from upgrader.steps.release.plan import PlannedRelease

NAMESPACES = Kind("v1", "namespaces", namespaced=False)
DEPLOYMENTS = Kind("apps/v1", "deployments")
ACCOUNTS = Kind("v1", "serviceaccounts")


def deployment(namespace: str, *, replicas: int = 0, name: str = "web", **container: Any) -> dict[str, Any]:
    """A Deployment of a container that requests what it needs."""
    needed = {"requests": {"cpu": "10m", "memory": "10Mi"}}
    spec = {"containers": [{"name": "main", "image": "nothing.example/nothing", "resources": needed, **container}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }


def namespace(kube: KubeAdapter, made: Make, **labels: str) -> str:
    """A namespace in which pods can be made."""
    name = made(NAMESPACES, {"metadata": {"labels": labels}})
    until("a ServiceAccount", lambda: kube.get(ACCOUNTS, "default", name) is not None, timeout_seconds=120)
    return name


def of_plan(kube: KubeAdapter, item: dict[str, Any]) -> list[str]:
    """What the check of admission finds for a release of this one object."""
    return ids(kube, check_admission, planned={"web": yaml.safe_dump(item)})


def test_limits_that_a_limit_range_adds(kube: KubeAdapter, made: Make) -> None:
    """The API server puts them into the pod that it would admit."""
    name = namespace(kube, made)
    assert of_plan(kube, deployment(name)) == []
    limits = {"type": "Container", "default": {"memory": "64Mi"}}
    made(Kind("v1", "limitranges"), {"metadata": {}, "spec": {"limits": [limits]}}, name)
    until("it to hold", lambda: of_plan(kube, deployment(name)) != [], timeout_seconds=120)
    assert of_plan(kube, deployment(name)) == ["admission.limits"]


def test_pods_that_a_policy_gives_less_time_to_end(kube: KubeAdapter, made: Make) -> None:
    """The API server shows the pod as its policy makes it, and nothing is stored."""
    name = namespace(kube, made)
    item = deployment(name)
    item["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 45
    assert of_plan(kube, item) == []
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    expression = "Object{spec: Object.spec{terminationGracePeriodSeconds: 20}}"
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    constraints = {"resourceRules": [rule], "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
    spec = {"matchConstraints": constraints, "mutations": [mutation], "reinvocationPolicy": "Never"}
    policy = made(_admission("mutatingadmissionpolicies"), {"metadata": {}, "spec": spec})
    made(_admission("mutatingadmissionpolicybindings"), {"metadata": {}, "spec": {"policyName": policy}})
    until("it to hold", lambda: of_plan(kube, item) == ["admission.grace-period"], timeout_seconds=120)


def test_pods_that_a_quota_refuses(kube: KubeAdapter, made: Make) -> None:
    """Nothing of them is made: the quota alone would refuse the run's pods."""
    name = namespace(kube, made)
    assert of_plan(kube, deployment(name)) == []
    made(Kind("v1", "resourcequotas"), {"metadata": {}, "spec": {"hard": {"pods": "0"}}}, name)
    until("it to hold", lambda: of_plan(kube, deployment(name)) != [], timeout_seconds=120)
    assert of_plan(kube, deployment(name)) == ["admission.refused"]


def test_pods_that_pod_security_refuses(kube: KubeAdapter, made: Make) -> None:
    """The namespace's label decides."""
    privileged: dict[str, Any] = {"securityContext": {"privileged": True}}
    assert of_plan(kube, deployment(namespace(kube, made), **privileged)) == []
    strict = namespace(kube, made, **{"pod-security.kubernetes.io/enforce": "baseline"})
    assert of_plan(kube, deployment(strict, **privileged)) == ["admission.refused"]


def test_workload_that_a_policy_refuses(kube: KubeAdapter, made: Make) -> None:
    """One that is there and one that is new, in two namespaces; as the policy wants it, it is no finding."""
    old, new = namespace(kube, made), namespace(kube, made)
    made(DEPLOYMENTS, deployment(old), old)
    what = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
    rule = {**what, "operations": ["CREATE", "UPDATE"]}
    policy = made(
        _admission("validatingadmissionpolicies"),
        {
            "metadata": {},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": "'owner' in object.metadata.?labels.orValue({})"}],
            },
        },
    )
    where = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [old, new]}
    bound = {"policyName": policy, "validationActions": ["Deny"]}
    resources = {"namespaceSelector": {"matchExpressions": [where]}}
    made(
        _admission("validatingadmissionpolicybindings"),
        {"metadata": {}, "spec": {**bound, "matchResources": resources}},
    )
    for name in (old, new):
        item = deployment(name)
        until("it to hold", lambda item=item: of_plan(kube, item) == ["admission.refused"], timeout_seconds=120)  # type: ignore[misc]
        owned = {**item, "metadata": {**item["metadata"], "labels": {"owner": "me"}}}
        assert of_plan(kube, owned) == []


def _admission(plural: str) -> Kind:
    return Kind("admissionregistration.k8s.io/v1", plural, namespaced=False)


def test_namespace_that_the_run_brings(kube: KubeAdapter) -> None:
    """In it, nothing can be tried."""
    brought = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "upgrader-check-not-yet"}}
    known = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    assert ids(kube, check_admission, planned={"web": yaml.safe_dump_all([known, deployment("default")])}) == []
    both = yaml.safe_dump_all([brought, deployment("upgrader-check-not-yet")])
    assert ids(kube, check_admission, planned={"web": both}) == ["admission.untested"]


def test_number_of_pods_that_another_client_set(kube: KubeAdapter, made: Make) -> None:
    """The API server keeps who set it; a Deployment as its release has it is no finding."""
    name = namespace(kube, made)
    made(DEPLOYMENTS, deployment(name, replicas=0), name)
    same, other = deployment(name, replicas=0), deployment(name, replicas=3)
    assert ids(kube, check_autoscalers, planned={"web": yaml.safe_dump(same)}) == []
    assert ids(kube, check_autoscalers, planned={"web": yaml.safe_dump(other)}) == ["autoscalers.reset"]


def test_workload_that_a_gitops_controller_declares(
    kube: KubeAdapter, made: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server keeps who applies it; a client that has only set a field of it declares nothing."""
    name = namespace(kube, made)
    made(DEPLOYMENTS, deployment(name, replicas=0), name)
    planned = {"web": yaml.safe_dump(deployment(name, replicas=0))}
    assert ids(kube, check_other_writers, planned=planned) == []
    monkeypatch.setattr("upgrader.adapters.kube.FIELD_MANAGER", "argocd-controller")
    kube.apply(DEPLOYMENTS, deployment(name, replicas=0), name)
    assert ids(kube, check_other_writers, planned=planned) == ["releases.other-writer"]


def test_kube_apiserver_that_is_planned(kube: KubeAdapter) -> None:
    """Its requests, limits and instances; the cluster isn't asked for any of it."""

    def planned(replicas: int = 1, **resources: Any) -> dict[str, str]:
        item = deployment("kube-system", name="kube-apiserver", replicas=replicas)
        container = item["spec"]["template"]["spec"]["containers"][0]
        container["name"] = "kube-apiserver"
        container["resources"] = {**container["resources"], **resources}
        return {"kube-apiserver": yaml.safe_dump(item)}

    assert ids(kube, check_resources, planned=planned()) == []
    assert ids(kube, check_resources, planned=planned(requests={"cpu": "1"})) == ["resources.no-request"]
    assert ids(kube, check_resources, planned=planned(limits={"cpu": "1"})) == ["resources.cpu-limit"]
    assert ids(kube, check_resources, planned=planned(limits={"cpu": "50m"})) == ["resources.low-cpu-limit"]
    assert ids(kube, check_resources, planned=planned(limits={"memory": "1Mi"})) == ["resources.memory-limit"]
    one = {"controllers": ["one"]}
    assert "control-plane.replicas" not in ids(kube, check_control_plane, planned=planned(), **one)
    assert "control-plane.replicas" in ids(kube, check_control_plane, planned=planned(replicas=3), **one)


def test_endpoint_that_is_there_for_good(kube: KubeAdapter) -> None:
    """Needed by one instance, and by the run that makes several of it: then it is one too many."""
    fixed = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "kube-apiserver", "namespace": "default"},
        "endpoints": [{"addresses": ["192.0.2.1"]}],
    }

    def of_upgrade(before: int, after: int) -> bool:
        manifests = [
            yaml.safe_dump_all([deployment("kube-system", name="kube-apiserver", replicas=replicas), fixed])
            for replicas in (before, after)
        ]
        context = checked(kube, controllers=["one", "two", "three"], planned={"kube-apiserver": manifests[1]})
        assert context.plan is not None
        (step,) = context.plan.steps
        assert isinstance(step, PlannedRelease)
        context = replace(context, plan=replace(context.plan, steps=(replace(step, before=manifests[0]),)))
        found = run_checks(context, [("control-plane", check_control_plane)])
        return "control-plane.endpoints" in [item.id for item in found]

    assert not of_upgrade(1, 3)
    assert of_upgrade(3, 3)
