"""What is in a copy of a cluster: what the allow-list names, and nothing else, whatever the objects have."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.model.cluster_copy.examples import NODES, OBJECTS, VALUES, copied, of_kind, worker
from upgrader.model.cluster_copy.objects import copied_object
from upgrader.model.cluster_copy.settings import copied_flags, has_form

CANARY = "hunter2 $ecret"
"""A text that is no name: a label can't have it."""
_PLACES = (
    *("env", "envFrom", "args", "command", "image", "containers", "initContainers", "volumes", "volumeClaimTemplates"),
    *("annotations", "managedFields", "ownerReferences", "status", "data", "stringData", "binaryData", "value"),
    *("clientConfig", "caBundle", "url", "conversion", "description", "title", "example", "externalDocs"),
    *("additionalPrinterColumns", "securityContext", "imagePullSecrets", "serviceAccountName", "hostAliases"),
    *("kubectl.kubernetes.io/last-applied-configuration", CANARY),
)
_SHAPES = st.recursive(
    st.just(CANARY),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=2),
        st.dictionaries(st.sampled_from(_PLACES), inner, min_size=1, max_size=2),
    ),
    max_leaves=4,
)
_OTHER_KEYS = st.lists(st.text("xyz-", min_size=1, max_size=3), max_size=2)


def seeded(value: Any, secret: Any, keys: list[str], *, leaves: bool) -> Any:
    """The value with a secret in each mapping under every key that it hasn't yet, and as one more entry of each list;
    with `leaves`, also in place of each number and truth value.
    """
    if isinstance(value, dict):
        grown = {key: seeded(item, secret, keys, leaves=leaves) for key, item in value.items()}
        return {**dict.fromkeys((*_PLACES, *keys), secret), **grown}
    if isinstance(value, list):
        return [*(seeded(item, secret, keys, leaves=leaves) for item in value), secret]
    return secret if leaves and not isinstance(value, str) else value


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(_SHAPES, _OTHER_KEYS, st.booleans())
def test_no_secret_is_copied_from_a_field_that_is_not_named(secret: Any, keys: list[str], leaves: bool) -> None:
    """Whatever hostile objects, nodes and values have in any other place, no part of it is in the copy."""
    objects = [seeded(item, secret, keys, leaves=leaves) for item in OBJECTS]
    nodes = [seeded(node, secret, keys, leaves=leaves) for node in NODES]
    values = seeded(VALUES, secret, keys, leaves=leaves)
    text = yaml.safe_dump(copied(objects=objects, nodes=nodes, values=values).plain())
    assert [line for line in text.splitlines() if "hunter2" in line] == []


@pytest.mark.parametrize("field", ["env", "args", "command", "image", "volumeMounts", "envFrom"])
def test_of_containers_nothing_is_copied(field: str) -> None:
    """Not even their names: a workload is what selects, counts and places its pods."""
    item = copy.deepcopy(of_kind("Deployment"))
    item["spec"]["template"]["spec"]["containers"] = [{"name": "web", field: [{"name": "a", "value": CANARY}]}]
    assert copied_object(item) == of_kind("Deployment")


@pytest.mark.parametrize(
    "item",
    [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"a": CANARY}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": CANARY}},
        {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "a"}, "spec": {"a": CANARY}},
        {"apiVersion": "example.com/v1", "kind": "Deployment", "metadata": {"name": "a"}},
    ],
    ids=lambda item: f"{item['apiVersion']} {item['kind']}",
)
def test_other_kinds_are_never_copied(item: dict[str, Any]) -> None:
    """Nor is one of another group with a name that is on the list."""
    assert copied_object(item) is None and copied(objects=(item,)).objects == ()


def test_what_is_named_is_copied_whole() -> None:
    """A cluster that has nothing but what the list names is copied as it is, each object once."""
    found = copied()
    assert found.objects == OBJECTS and found.not_copied == ()
    assert [node.name for node in found.controllers] == ["cp-1"] and found.controllers[0].labels == {"zone": "a"}
    assert [(node.name, node.labels) for node in found.workers] == [
        ("w-1", {"pool": "blue"}),
        ("w-2", {"pool": "green"}),
    ]
    assert found.workers[0].taints == ({"key": "dedicated", "value": "web", "effect": "NoSchedule"},)
    assert found.flags["kube-apiserver"] == {"feature-gates": "A=true", "max-requests-inflight": "800"}
    assert found.values == {
        "kube-apiserver": {"gracefulShutdown": {"drainSeconds": 20}},
        "kubernetes": {"kubeProxy": {"maxUnavailable": "20%"}},
    }


def test_what_looks_like_a_secret_in_an_allowed_field_is_left_out() -> None:
    """Its object is named, and so is that it was left out; a node's label goes alone."""
    policy = copy.deepcopy(of_kind("ValidatingAdmissionPolicy"))
    token = "ghp_" + "a1B2" * 8
    policy["spec"]["validations"][0]["expression"] = f"object.metadata.name == '{token}'"
    found = copied(objects=(policy,), nodes=(worker("w-1", {"a": token, "b": "c"}),))
    assert found.objects == () and token not in str(found.plain())
    assert found.not_copied == ("ValidatingAdmissionPolicy few-replicas: a part of it looks like a secret",)
    assert found.nodes[0].labels == {"b": "c"}


def test_a_field_for_secrets_has_no_default_in_the_copy() -> None:
    """A schema may name a default password, which has the form of others."""
    crd = copy.deepcopy(of_kind("CustomResourceDefinition"))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    schema["password"] = {"type": "string", "default": "hunter2", "enum": ["hunter2"]}
    (found,) = copied(objects=(crd,)).objects
    assert "hunter2" not in str(found) and "'password': {'type': 'string'}" in str(found)


@pytest.mark.parametrize(
    ("field", "schema"),
    [
        ("password", {"properties": {"value": {"default": "hunter2"}}}),
        ("passwords", {"items": {"default": "hunter2", "pattern": "^hunter2$"}}),
        ("token", {"anyOf": [{"enum": ["hunter2"]}]}),
        ("token", {"additionalProperties": {"not": {"enum": ["hunter2"]}}}),
        ("db.password", {"x-kubernetes-validations": [{"rule": "self != 'hunter2'"}]}),
    ],
)
def test_nor_has_anything_in_a_field_for_secrets(field: str, schema: dict[str, Any]) -> None:
    """However deep in its schema; the field itself is there."""
    crd = copy.deepcopy(of_kind("CustomResourceDefinition"))
    properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    properties[field] = {"type": "object", **schema}
    (found,) = copied(objects=(crd,)).objects
    assert "hunter2" not in str(found) and f"'{field}': {{'type': 'object'" in str(found)


def test_the_key_of_a_list_in_a_field_for_secrets_has_its_empty_default() -> None:
    """The API server demands one; it is in each definition that has a pod's template."""
    crd = copy.deepcopy(of_kind("CustomResourceDefinition"))
    properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    properties["imagePullSecrets"] = {
        "type": "array",
        "items": {"type": "object", "properties": {"name": {"type": "string", "default": ""}}},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    assert copied(objects=(crd,)).objects == (crd,)


_SECRET_LABEL = {"shop/db-password": "hunter2", "app": "web"}


def test_a_label_or_taint_for_secrets_is_not_copied() -> None:
    """Its value has the form of others; the other labels stay."""
    namespace = {**of_kind("Namespace"), "metadata": {"name": "shop", "labels": _SECRET_LABEL}}
    web = copy.deepcopy(of_kind("Deployment"))
    web["spec"]["template"]["metadata"]["labels"] = _SECRET_LABEL
    node = worker("w-1", _SECRET_LABEL, {"key": "token", "value": "hunter2", "effect": "NoSchedule"})
    found = copied(objects=(namespace, web), nodes=(node,))
    assert "hunter2" not in str(found.plain())
    assert [item["metadata"]["name"] for item in found.objects] == ["shop", "web"]
    assert found.objects[0]["metadata"]["labels"] == found.nodes[0].labels == {"app": "web"}


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("selector", {"matchLabels": _SECRET_LABEL}),
        ("selector", {"matchExpressions": [{"key": "token", "operator": "In", "values": ["hunter2"]}]}),
        ("template", {"spec": {"nodeSelector": _SECRET_LABEL}}),
        ("template", {"spec": {"tolerations": [{"key": "token", "value": "hunter2"}]}}),
    ],
)
def test_what_selects_by_a_label_for_secrets_is_left_out(part: str, value: dict[str, Any]) -> None:
    """Without a part of its selector it would select others: it is named."""
    web = copy.deepcopy(of_kind("Deployment"))
    web["spec"][part] = value
    found = copied(objects=(web,))
    assert found.objects == () and "hunter2" not in str(found.plain())
    assert found.not_copied == ("Deployment shop/web: one of its selectors or tolerations can't be copied completely",)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("oidc-client-id", "shop"),
        ("audit-webhook-config-file", "/etc/kubernetes/audit.yaml"),
        ("event-ttl", CANARY),
        ("feature-gates", "A=hunter2"),
        ("enable-admission-plugins", ["NodeRestriction", {"hunter2": 1}]),
    ],
)
def test_a_flag_that_a_lab_cannot_have_is_named_without_its_value(name: str, value: Any) -> None:
    """Files, servers, and values of another form than the flag's."""
    found = copied(values={"kube-apiserver": {"extraArgs": {name: value}}})
    assert found.flags == {} and "hunter2" not in str(found.plain())
    assert found.not_copied == (f"kube-apiserver --{name}: a lab can't have it",)


def test_admission_plugins_that_need_files_are_left_out_of_the_flag() -> None:
    """The others stay: without its file, kube-apiserver would not start."""
    values = {"kube-apiserver": {"extraArgs": {"enable-admission-plugins": "NodeRestriction,ImagePolicyWebhook"}}}
    found = copied(values=values)
    assert found.flags == {"kube-apiserver": {"enable-admission-plugins": "NodeRestriction"}}
    assert found.not_copied == ("kube-apiserver --enable-admission-plugins=ImagePolicyWebhook: a lab can't have it",)


@pytest.mark.parametrize(
    ("component", "flag"),
    [
        ("kube-controller-manager", "concurrent-deployment-syncs"),
        ("kube-controller-manager", "concurrent-gc-syncs"),
        ("kube-apiserver", "delete-collection-workers"),
    ],
)
def test_numbers_of_workers_fit_a_machine(component: str, flag: str) -> None:
    """Each starts at once, for eight controllers: a stranger's file with so many would take the machine's memory."""
    assert has_form(component, flag, "999")
    assert copied_flags(component, {flag: "1000"}) == ({}, (f"--{flag}",))
    assert copied_flags(component, {flag: "999999999"}) == ({}, (f"--{flag}",))


def test_flags_of_static_pods_hold_where_the_cluster_is_not_adopted() -> None:
    """By the same list as flags of values; kubeadm's own are no loss. What differs between controllers, and a component
    without static pods, are named.
    """
    server = {"event-ttl": ("2h",), "etcd-servers": ("https://hunter2:2379",), "oidc-client-id": ("hunter2",)}
    static = {
        "kube-apiserver": [
            {**server, "max-requests-inflight": (each,), "feature-gates": ("A=true", "B=false")} for each in "12"
        ],
        "kube-scheduler": [{"kubeconfig": ("/etc/kubernetes/scheduler.conf",), "profiling": ("false",)}],
    }
    found = copied(adopted=False, static=static)
    assert found.flags == {
        "kube-apiserver": {"event-ttl": "2h", "feature-gates": "A=true,B=false"},
        "kube-scheduler": {"profiling": "false"},
    }
    assert found.not_copied == (
        "kube-apiserver --max-requests-inflight: differs between controllers",
        "kube-apiserver --oidc-client-id: a lab can't have it",
        "kube-controller-manager: its flags are unknown, because it has no static pod",
    )
    assert "hunter2" not in str(found.plain())


def test_what_would_act_otherwise_without_its_parts_is_left_out() -> None:
    """A binding whose parameters are missing would refuse everything; a conversion webhook can't be called."""
    binding = copy.deepcopy(of_kind("ValidatingAdmissionPolicyBinding"))
    binding["spec"]["paramRef"] = {"name": "limits", "parameterNotFoundAction": "Deny"}
    crd = copy.deepcopy(of_kind("CustomResourceDefinition"))
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"clientConfig": {"url": f"https://{CANARY}"}}}
    found = copied(objects=(binding, crd))
    assert found.objects == (of_kind("CustomResourceDefinition"),)
    assert found.not_copied == (
        "CustomResourceDefinition shops.example.com: its conversion webhook",
        "ValidatingAdmissionPolicyBinding few-replicas: its parameters are not copied",
    )


def test_what_each_lab_has_is_not_copied() -> None:
    """The control plane's own workloads, its priority classes, and what the kubelet and upgrader write to a node."""
    own = [
        {"apiVersion": "apps/v1", "kind": kind, "metadata": {"namespace": "kube-system", "name": name}}
        for kind, name in (("Deployment", "kube-apiserver"), ("DaemonSet", "kube-proxy"), ("Deployment", "coredns"))
    ]
    system = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "system-node-critical"},
        "value": 1,
    }
    labels = {"kubernetes.io/hostname": "w-1", "upgrader.io/surge": "x", "zone": "a"}
    node = worker("w-1", labels, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    flannel = {"metadata": {"namespace": "kube-flannel", "name": "kube-flannel-ds"}}
    own.append({"apiVersion": "apps/v1", "kind": "DaemonSet", **flannel})
    found = copied(objects=(*own, system), nodes=(node,))
    assert found.objects == () and found.not_copied == ()
    assert (found.nodes[0].labels, found.nodes[0].taints) == ({"zone": "a"}, ())
