"""`upgrader migrate-storage` on a real cluster: what etcd has before and afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from testkit.lab_cluster import LabCluster, until
from testkit.labs import lent_or_new
from upgrader.errors import ApiError
from upgrader.ports import Kind

_DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
_POLICIES = Kind("admissionregistration.k8s.io/v1", "validatingadmissionpolicies", namespaced=False)
_BINDINGS = Kind("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings", namespaced=False)
_WIDGETS = Kind("example.com/v1", "widgets")
_NAME = "widgets.example.com"
COUNT = 300
"""More than one page."""

_READ = """
import base64, json, ssl, sys, urllib.request
pki = "/etc/kubernetes/pki/etcd/"
tls = ssl.create_default_context(cafile=pki + "ca.crt")
tls.load_cert_chain(pki + "healthcheck-client.crt", pki + "healthcheck-client.key")
first = sys.argv[1].encode()
text = lambda key: base64.b64encode(key).decode()
body = json.dumps({"key": text(first), "range_end": text(first[:-1] + bytes([first[-1] + 1]))}).encode()
request = urllib.request.Request("https://127.0.0.1:2379/v3/kv/range", body)
found = json.load(urllib.request.urlopen(request, context=tls)).get("kvs", [])
print(json.dumps([json.loads(base64.b64decode(item["value"]))["apiVersion"] for item in found]))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """An adopted cluster of one controller."""
    with lent_or_new("e2e-storage", tmp_path_factory.mktemp("lab")) as cluster:
        yield cluster


def test_what_was_stored_in_an_old_version_is_stored_in_the_new(cluster: LabCluster) -> None:
    """Custom resources of a definition whose storage version has changed; while a policy forbids to change one of them,
    it is named, and the definition goes on to say that the old version is stored.
    """
    define(cluster, "v1")
    for number in range(COUNT):
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": f"w{number}"}}
        cluster.kube.create(_WIDGETS, widget, "default")
    define(cluster, "v2")
    assert stored(cluster) == {"example.com/v1": COUNT}
    assert listed(cluster) == ["v1", "v2"]
    before = cluster.kube.list(_WIDGETS)

    forbid(cluster, "w7")
    refused = cluster.upgrader("migrate-storage", "--yes", timeout_seconds=900)
    assert refused.exit_code == 5 and "widgets default/w7" in refused.stderr, refused
    assert stored(cluster) == {"example.com/v1": 1, "example.com/v2": COUNT - 1}
    assert listed(cluster) == ["v1", "v2"]

    allow(cluster)
    ended = cluster.upgrader("migrate-storage", "--yes", timeout_seconds=900)
    assert ended.exit_code == 0, ended
    assert stored(cluster) == {"example.com/v2": COUNT}
    assert listed(cluster) == ["v2"]
    after = {item["metadata"]["name"]: item for item in cluster.kube.list(_WIDGETS)}
    for item in before:
        same = after[item["metadata"]["name"]]
        assert same["metadata"]["uid"] == item["metadata"]["uid"]
        assert same.get("spec") == item.get("spec")
    cluster.kube.delete(_DEFINITIONS, _NAME)


def define(cluster: LabCluster, storage: str) -> None:
    """A definition with two versions, one of which is stored."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": name, "served": True, "storage": name == storage, "schema": schema} for name in ("v1", "v2")]
    names = {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": _NAME},
        "spec": spec,
    }
    cluster.kube.apply(_DEFINITIONS, definition)

    def in_use() -> bool:
        cluster.kube.list(_WIDGETS)
        return storage in listed(cluster)

    until(f"the definition with storage version {storage}", in_use, timeout_seconds=30)


def listed(cluster: LabCluster) -> list[str]:
    """The versions that the definition says are stored."""
    found: Any = cluster.kube.get(_DEFINITIONS, _NAME)
    return list((found or {}).get("status", {}).get("storedVersions", []))


def stored(cluster: LabCluster) -> dict[str, int]:
    """In how many values etcd has which version."""
    found = json.loads(cluster.on_controller("python3", "-c", _READ, "/registry/example.com/widgets/"))
    return {version: found.count(version) for version in sorted(set(found))}


def forbid(cluster: LabCluster, name: str) -> None:
    """Let admission refuse every change of one custom resource."""
    rule = {"apiGroups": ["example.com"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["widgets"]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": f"!(object.metadata.name in ['{name}', 'probe'])", "message": "not this one"}],
    }
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "widgets"}}
    cluster.kube.create(_POLICIES, {**head, "kind": "ValidatingAdmissionPolicy", "spec": spec})
    binding = {"policyName": "widgets", "validationActions": ["Deny"]}
    cluster.kube.create(_BINDINGS, {**head, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding})

    until("the policy to be in force", lambda: not may_change(cluster), timeout_seconds=30)


def allow(cluster: LabCluster) -> None:
    """Every change is allowed again."""
    cluster.kube.delete(_BINDINGS, "widgets")
    cluster.kube.delete(_POLICIES, "widgets")
    until("the policy to be gone", lambda: may_change(cluster), timeout_seconds=30)


def may_change(cluster: LabCluster) -> bool:
    """Whether admission lets an object be changed that the policy forbids as well; it is gone afterwards."""
    probe = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "probe"}}
    cluster.kube.create(_WIDGETS, probe, "default")
    try:
        cluster.kube.patch(_WIDGETS, "probe", {"metadata": {"labels": {"a": "b"}}}, "default")
    except ApiError as error:
        if error.status != 422:
            raise
        return False
    finally:
        cluster.kube.delete(_WIDGETS, "probe", "default")
    return True
