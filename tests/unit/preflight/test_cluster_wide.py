"""What others have installed in the cluster: webhooks, aggregated APIs, custom resources, namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.preflight.conftest import World
from upgrader.errors import ApiError
from upgrader.ports import Kind
from upgrader.preflight.custom_resources import check_custom_resources
from upgrader.preflight.namespaces import check_namespaces
from upgrader.preflight.served_apis import check_served_apis
from upgrader.preflight.webhooks import check_webhooks

VALIDATING = Kind("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", namespaced=False)
MUTATING = Kind("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", namespaced=False)
SERVICES, SLICES = Kind("v1", "services"), Kind("discovery.k8s.io/v1", "endpointslices")
API_SERVICES = Kind("apiregistration.k8s.io/v1", "apiservices", namespaced=False)
DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
NAMESPACES = Kind("v1", "namespaces", namespaced=False)
PODS_RULE = {"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}
NOT_OURS = {
    "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]
}


def backend(world: World, *, ready: bool | None = True, **spec: Any) -> None:
    """The Service `policy/policy`, with one endpoint."""
    world.kube.put(SERVICES, {"metadata": {"name": "policy", "namespace": "policy"}, "spec": spec})
    meta = {"name": "policy-1", "namespace": "policy", "labels": {"kubernetes.io/service-name": "policy"}}
    conditions = {} if ready is None else {"ready": ready}
    world.kube.put(SLICES, {"metadata": meta, "endpoints": [{"addresses": ["10.1.0.1"], "conditions": conditions}]})


def webhook(world: World, kind: Kind = VALIDATING, **fields: Any) -> None:
    """A webhook that is asked about every new pod, and answered for by `policy/policy`."""
    given = {
        "name": "pods.policy.example",
        "clientConfig": {"service": {"namespace": "policy", "name": "policy"}},
        "rules": [PODS_RULE],
        **fields,
    }
    world.kube.put(kind, {"metadata": {"name": "policy"}, "webhooks": [given]})


@pytest.mark.parametrize("kind", [VALIDATING, MUTATING])
def test_webhook_without_a_backend_blocks_the_run(world: World, kind: Kind) -> None:
    """A failurePolicy of Fail is the default: neither the upgrade nor its rollback could create a pod."""
    webhook(world, kind)
    found = world.find(check_webhooks)["webhooks.no-backend"]
    assert found.severity == "error"
    assert "refuses pods: Service policy/policy doesn't exist" in found.title
    backend(world, ready=False)
    assert "has no ready endpoint" in world.find(check_webhooks)["webhooks.no-backend"].title


@pytest.mark.parametrize("ready", [True, None])
def test_webhook_that_answers_is_worth_a_warning(world: World, ready: bool | None) -> None:
    """It decides about the control plane for as long as it answers; an endpoint without conditions is ready."""
    webhook(world)
    backend(world, ready=ready)
    (found,) = world.find(check_webhooks).values()
    assert (found.id, found.severity) == ("webhooks.catches-control-plane", "warning")
    assert "namespaceSelector" in found.remedy


def test_what_may_leave_the_control_plane_out_does_not_block(world: World) -> None:
    """An objectSelector or matchConditions can't be decided beforehand: the finding says so, as a warning."""
    given: dict[str, Any] = {"objectSelector": {"matchLabels": {"a": "b"}}, "matchConditions": [{"name": "x"}]}
    for field, value in given.items():
        webhook(world, VALIDATING, **{field: value})
        found = world.find(check_webhooks)["webhooks.no-backend"]
        assert found.severity == "warning" and field in found.diagnosis


@pytest.mark.parametrize(
    "fields",
    [
        {"failurePolicy": "Ignore"},
        {"namespaceSelector": NOT_OURS},
        {"namespaceSelector": {"matchLabels": {"team": "a"}}},
        {"rules": [{**PODS_RULE, "operations": ["CONNECT"]}]},
        {"rules": [{**PODS_RULE, "resources": ["pods/exec"]}]},
        {"rules": [{**PODS_RULE, "apiGroups": ["example.com"], "resources": ["*"]}]},
        {"rules": [{**PODS_RULE, "scope": "Cluster"}]},
    ],
)
def test_webhook_that_leaves_the_control_plane_alone_is_no_finding(world: World, fields: dict[str, Any]) -> None:
    """Also one without a backend: it refuses nothing that a run writes."""
    webhook(world, **fields)
    assert world.find(check_webhooks) == {}


def test_webhook_on_nodes_catches_them_whatever_its_namespaces(world: World) -> None:
    """A namespaceSelector doesn't apply to what has no namespace."""
    rule = {**PODS_RULE, "resources": ["nodes"], "operations": ["*"]}
    webhook(world, rules=[rule], namespaceSelector=NOT_OURS)
    assert "refuses nodes" in world.find(check_webhooks)["webhooks.no-backend"].title


@pytest.mark.parametrize(
    ("resource", "operation", "caught"),
    [
        ("pods/*", "CREATE", True),
        ("pods/binding", "CREATE", True),
        ("*/status", "UPDATE", True),
        ("nodes/status", "UPDATE", True),
        ("nodes", "CREATE", False),
        ("pods/exec", "CREATE", False),
    ],
)
def test_subresources_that_the_control_plane_writes(world: World, resource: str, operation: str, caught: bool) -> None:
    """Without bindings nothing is scheduled, and without the status of nodes none is Ready."""
    webhook(world, rules=[{"apiGroups": [""], "resources": [resource], "operations": [operation]}])
    assert ("webhooks.no-backend" in world.find(check_webhooks)) is caught


def test_remedy_for_what_has_no_namespace(world: World) -> None:
    """A namespaceSelector, which the webhook may have already, would not help."""
    everything = [{"apiGroups": ["*"], "resources": ["*"], "operations": ["*"]}]
    webhook(world, rules=everything, namespaceSelector=NOT_OURS)
    assert "scope: Namespaced" in world.find(check_webhooks)["webhooks.no-backend"].remedy
    webhook(world, rules=everything)
    assert "NotIn kube-system" in world.find(check_webhooks)["webhooks.no-backend"].remedy


def test_slow_webhook_is_named(world: World) -> None:
    """Also one that is ignored when it fails: each write waits for it all the same."""
    backend(world)
    webhook(world, failurePolicy="Ignore", timeoutSeconds=30)
    (found,) = world.find(check_webhooks).values()
    assert found.id == "webhooks.slow" and "30 s" in found.title
    webhook(world, failurePolicy="Ignore", timeoutSeconds=10)
    assert world.find(check_webhooks) == {}


def test_many_resources_are_cut_short(world: World) -> None:
    """A webhook for everything is named with the first few."""
    webhook(world, rules=[{"apiGroups": ["*"], "resources": ["*"], "operations": ["*"]}])
    assert "pods, configmaps, secrets and 11 more" in world.find(check_webhooks)["webhooks.no-backend"].title


def test_backend_outside_the_cluster_can_not_be_judged(world: World) -> None:
    """An URL or an ExternalName has no endpoints; it is taken for one that answers."""
    webhook(world, clientConfig={"url": "https://policy.example"})
    assert set(world.find(check_webhooks)) == {"webhooks.catches-control-plane"}
    backend(world, ready=False, type="ExternalName")
    webhook(world)
    assert set(world.find(check_webhooks)) == {"webhooks.catches-control-plane"}


def test_aggregated_api_that_is_not_available(world: World) -> None:
    """Its condition and the reason are named; one without a condition isn't known to be Available."""
    good = {"type": "Available", "status": "True"}
    bad = {"type": "Available", "status": "False", "reason": "MissingEndpoints", "message": "no endpoints"}
    world.kube.put(API_SERVICES, {"metadata": {"name": "v1.apps"}, "status": {"conditions": [good]}})
    assert world.find(check_served_apis) == {}
    world.kube.put(API_SERVICES, {"metadata": {"name": "v1beta1.metrics.k8s.io"}, "status": {"conditions": [bad]}})
    found = world.find(check_served_apis)["apis.unavailable"]
    assert "v1beta1.metrics.k8s.io" in found.title and "MissingEndpoints: no endpoints" in found.diagnosis
    world.kube.put(API_SERVICES, {"metadata": {"name": "v1beta1.metrics.k8s.io"}})
    assert "no condition" in world.find(check_served_apis)["apis.unavailable"].diagnosis


def test_deprecated_apis_that_clients_use(world: World) -> None:
    """Those that the target removes are a warning, the others are only mentioned."""
    labels = 'group="{0}",removed_release="{1}",resource="{2}",subresource="",version="v1"'
    line = f"apiserver_requested_deprecated_apis{{{{{labels}}}}} 1"
    requested = (("a.example", "1.37", "as"), ("b.example", "1.40", "bs"), ("", "", "endpoints"))
    lines = [line.format(*item) for item in requested]
    world.kube.raw_answers["/metrics"] = "\n".join(["# HELP x", *lines, "other 1"])
    found = world.find(check_served_apis)
    removed, deprecated = found["apis.requested-removed"], found["apis.requested-deprecated"]
    assert removed.severity == "warning" and removed.title.endswith("serve: a.example/v1/as (removed in 1.37)")
    assert deprecated.severity == "info"
    assert deprecated.title.endswith("b.example/v1/bs (removed in 1.40), v1/endpoints")


def test_metrics_that_can_not_be_read_do_not_block(world: World) -> None:
    """They are big, and rights to them are rarely given: what is not told is a warning, with how to allow it."""
    world.kube.raw_answers["/metrics"] = ApiError("get /metrics: Forbidden")
    (found,) = world.find(check_served_apis).values()
    assert (found.id, found.severity) == ("apis.requests-unknown", "warning") and "nonResourceURL" in found.remedy


def test_conversion_without_a_backend(world: World) -> None:
    """Only where there is something to convert, and nobody who could."""
    client = {"service": {"namespace": "policy", "name": "policy"}}
    definition: dict[str, Any] = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "versions": [{"name": "v1"}, {"name": "v1beta1"}],
            "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": client}},
        },
        "status": {"storedVersions": ["v1beta1", "v1"]},
    }
    world.kube.put(DEFINITIONS, definition)
    found = world.find(check_custom_resources)["custom-resources.conversion"]
    assert "widgets.example.com can't be converted" in found.title
    for number in range(4):
        world.kube.put(DEFINITIONS, {**definition, "metadata": {"name": f"x{number}.example.com"}})
    assert "and 2 more can't" in world.find(check_custom_resources)["custom-resources.conversion"].title, "once"
    for number in range(4):
        world.kube.delete(DEFINITIONS, f"x{number}.example.com")
    backend(world)
    assert world.find(check_custom_resources).keys() == {"custom-resources.stored-versions"}
    backend(world, ready=False)
    for spec in ({"versions": [{"name": "v1"}]}, {"conversion": {"strategy": "None"}}):
        world.kube.put(DEFINITIONS, {**definition, "spec": {**definition["spec"], **spec}})
        assert "custom-resources.conversion" not in world.find(check_custom_resources)


def test_objects_in_several_versions(world: World) -> None:
    """The next definition may not have the old one any more: told, with the versions; one version is no finding."""
    widgets: dict[str, Any] = {"metadata": {"name": "widgets.example.com"}, "spec": {"versions": []}}
    world.kube.put(DEFINITIONS, {**widgets, "status": {"storedVersions": ["v1"]}})
    assert world.find(check_custom_resources) == {}
    world.kube.put(DEFINITIONS, {**widgets, "status": {"storedVersions": ["v1beta1", "v1"]}})
    found = world.find(check_custom_resources)["custom-resources.stored-versions"]
    assert (found.severity, "widgets.example.com (v1beta1, v1)" in found.title) == ("info", True)


def test_definition_that_the_api_does_not_serve(world: World) -> None:
    """The API server's own reason; a new definition, which has no conditions yet, is no finding."""
    gadgets: dict[str, Any] = {"metadata": {"name": "gadgets.example.com"}, "spec": {"versions": []}}
    world.kube.put(DEFINITIONS, gadgets)
    assert world.find(check_custom_resources) == {}
    conditions = [
        {"type": "Established", "status": "False", "message": "not all names are accepted"},
        {"type": "NamesAccepted", "status": "False", "message": '"Widget" is already in use'},
    ]
    world.kube.put(DEFINITIONS, {**gadgets, "status": {"conditions": conditions}})
    found = world.find(check_custom_resources)["custom-resources.not-served"]
    assert found.severity == "warning" and '"Widget" is already in use' in found.title
    conditions = [{"type": kind, "status": "True"} for kind in ("Established", "NamesAccepted")]
    world.kube.put(DEFINITIONS, {**gadgets, "status": {"conditions": conditions}})
    assert world.find(check_custom_resources) == {}


def test_definition_that_can_not_be_deleted(world: World) -> None:
    """After ten minutes, as with namespaces."""
    meta = {"name": "gadgets.example.com", "deletionTimestamp": world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")}
    world.kube.put(DEFINITIONS, {"metadata": meta, "spec": {"versions": []}})
    assert world.find(check_custom_resources) == {}
    world.clock.sleep(601)
    assert "gadgets.example.com" in world.find(check_custom_resources)["custom-resources.terminating"].title


def test_namespace_that_can_not_be_deleted(world: World) -> None:
    """One that has been going for ten minutes, with what the API says of it; one that has just begun is usual."""
    condition = {"type": "NamespaceContentRemaining", "status": "True", "message": "2 widgets remain"}
    resolved = {"type": "NamespaceDeletionDiscoveryFailure", "status": "False", "message": "all fine"}
    began = world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    namespace = {
        "metadata": {"name": "old", "deletionTimestamp": began},
        "status": {"phase": "Terminating", "conditions": [condition, resolved]},
    }
    world.kube.put(NAMESPACES, namespace)
    world.kube.put(NAMESPACES, {"metadata": {"name": "kube-system"}})
    assert world.find(check_namespaces) == {}
    world.clock.sleep(601)
    found = world.find(check_namespaces)["namespaces.terminating"]
    assert "old" in found.title and found.diagnosis == "NamespaceContentRemaining: 2 widgets remain"
