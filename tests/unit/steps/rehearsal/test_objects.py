"""What a rehearsal writes, and what differs between an object as two versions read it."""

from __future__ import annotations

from typing import Any

import pytest

from upgrader.onhost.rehearsal.objects import differences, like, not_written, owner


def test_another_object_is_like_it() -> None:
    """What only one object can have is left out: its identity, a Service's addresses, a Job's selector."""
    own = {"name": "web", "namespace": "default", "uid": "1", "resourceVersion": "2", "labels": {"a": "b"}}
    ports = [{"port": 80, "nodePort": 30080}]
    service: dict[str, Any] = {
        "kind": "Service",
        "metadata": own,
        "spec": {"clusterIP": "10.0.0.1", "ports": ports},
        "status": {},
    }
    made = like(service)
    assert made["metadata"] == {"name": "r-web", "namespace": "default", "labels": {"a": "b"}}
    assert made["spec"] == {"ports": [{"port": 80}]} and "status" not in made
    assert service["spec"]["ports"] == [{"port": 80, "nodePort": 30080}], "the original stays"
    assert like({**service, "spec": {"clusterIP": "None"}})["spec"] == {"clusterIP": "None"}
    template = {"metadata": {"labels": {"controller-uid": "1", "a": "b"}}}
    job: dict[str, Any] = {"kind": "Job", "metadata": own, "spec": {"selector": {}, "template": template}}
    assert like(job)["spec"] == {"template": {"metadata": {"labels": {"a": "b"}}}}
    job["spec"]["manualSelector"] = True
    assert "selector" in like(job)["spec"]
    names = {"plural": "webs"}
    definition = like({"kind": "CustomResourceDefinition", "metadata": own, "spec": {"group": "x.com", "names": names}})
    assert definition["metadata"]["name"] == "webs." + definition["spec"]["group"] != "webs.x.com"
    assert like({"kind": "ConfigMap", "metadata": {"name": "x" * 80}})["metadata"]["name"] == "r-" + "x" * 61
    assert like({"kind": "IPAddress", "metadata": {"name": "10.96.0.1"}})["metadata"]["name"] == "192.0.2.1"
    assert like({"kind": "IPAddress", "metadata": {"name": "fd00::1"}})["metadata"]["name"] == "2001:db8::1"
    critical = {"kind": "PriorityClass", "metadata": {"name": "system-node-critical"}, "value": 2000001000}
    assert like(critical)["value"] == 1000000000


def test_an_object_that_is_named_alike_differs_only_in_what_a_server_gives_it() -> None:
    """Also one whose name is made of its content."""
    spec = {"group": "x.com", "names": {"plural": "webs", "kind": "Web"}}
    for kind, name in (("CustomResourceDefinition", "webs.x.com"), ("IPAddress", "10.96.0.1"), ("ConfigMap", "x" * 80)):
        item = {"kind": kind, "metadata": {"name": name, "uid": "u", "resourceVersion": "7"}, "spec": spec}
        assert like(item, named_alike=True) == {**item, "metadata": {"name": name}}


def test_a_controllers_objects_are_told_by_its_uid() -> None:
    """They are made from one template."""
    kind = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    references = [{"uid": "a", **kind}, {"uid": "b", "controller": True, **kind}]
    assert owner({"metadata": {"ownerReferences": references}}) == "b"
    assert owner({"metadata": {}}) == ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"metadata": {"labels": {"pod-template-hash": "1"}}}, {"metadata": {"labels": {"pod-template-hash": "2"}}}),
        (
            {"metadata": {"labels": {"controller-revision-hash": "1"}}},
            {"metadata": {"labels": {"controller-revision-hash": "2"}}},
        ),
        ({"metadata": {}, "addressType": "IPv4"}, {"metadata": {}, "addressType": "IPv6"}),
    ],
)
def test_what_one_controller_has_made_of_two_templates_is_not_alike(one: dict[str, Any], other: dict[str, Any]) -> None:
    """A Deployment's ReplicaSets of earlier templates are what a rollback uses again; a Service has EndpointSlices of
    both families.
    """
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "uid": "a", "controller": True}
    for each in (one, other):
        each["metadata"]["ownerReferences"] = [reference]
    assert "" != owner(one) != owner(other) and owner(one) == owner({**one, "spec": {"replicas": 2}})


@pytest.mark.parametrize(("api_version", "kind"), [("kafka.example.com/v1", "Kafka"), ("v1", "Node"), ("v1", "Job")])
def test_what_one_owner_makes_may_be_of_many_shapes(api_version: str, kind: str) -> None:
    """A custom resource's Services, and a node's static pods: each of them is created again, and not only the first."""
    reference = {"apiVersion": api_version, "kind": kind, "uid": "a", "controller": True}
    assert owner({"metadata": {"ownerReferences": [reference]}}) == ""


@pytest.mark.parametrize(
    ("before", "after", "lost", "added"),
    [
        ({"spec": {"a": 1}}, {"spec": {"a": 1}}, "", ""),
        ({"spec": {"a": 1}}, {"spec": {"a": 2}}, "spec.a", ""),
        ({"spec": {"a": 1}}, {"spec": {}}, "spec.a", ""),
        ({"spec": {"a": {}}}, {"spec": {}}, "spec.a", ""),
        ({"spec": {"a": None}}, {"spec": {}}, "", ""),
        ({"spec": {}}, {"spec": {"a": 1}}, "", "spec.a"),
        ({"spec": {}}, {"spec": {}, "status": {}}, "", ""),
        ({"spec": {}, "status": {}}, {"spec": {}}, "", ""),
        ({"spec": {}}, {"spec": {}, "status": {"phase": "x"}}, "", "status"),
        ({"status": {"phase": "x"}}, {}, "status", ""),
        (
            {"spec": {"list": [{"a": 1}, {"a": 2}]}},
            {"spec": {"list": [{"a": 1, "b": 1}, {"a": 3}]}},
            "spec.list.a",
            "spec.list.b",
        ),
        ({"spec": {"list": [1]}}, {"spec": {"list": [1, 2]}}, "spec.list", ""),
        ({"spec": {"list": [1, 2]}}, {"spec": {"list": [1]}}, "spec.list", ""),
        ({"spec": {"a": {"b": 1}}}, {"spec": {"a": "b"}}, "spec.a", ""),
        ({"metadata": {"managedFields": [1]}}, {"metadata": {}}, "", ""),
    ],
)
def test_a_value_that_is_lost_or_changed_is_told_from_one_that_is_added(
    before: Any, after: Any, lost: str, added: str
) -> None:
    """A newer version may have defaults and fields of its own: today's values stay. A null is no value, and neither is
    an empty status.
    """
    found = differences(before, after)
    assert [".".join(path) for path in found.lost] == ([lost] if lost else [])
    assert [".".join(path) for path in found.added] == ([added] if added else [])


def test_what_a_server_sets_by_itself_is_not_a_loss() -> None:
    """It counts what a write changes; labels are the object's own."""
    sent = {
        "metadata": {"name": "web", "generation": 1, "resourceVersion": "5", "labels": {"a": "b"}},
        "spec": {"c": 1},
    }
    returned = {"metadata": {"name": "web", "generation": 2, "resourceVersion": "6", "uid": "1"}, "spec": {"d": 1}}
    assert not_written(sent, returned) == {("metadata", "labels"), ("spec", "c")}
    assert not_written(sent, {**sent, "status": {"phase": "x"}}) == frozenset()


@pytest.mark.parametrize(
    ("returned", "written"), [([1, 2, 3], True), ([3, 1, 2], True), ([1, 3, 2], True), ([2, 1, 3], False), ([1], False)]
)
def test_what_a_server_adds_to_a_list_is_not_a_loss(returned: list[int], written: bool) -> None:
    """Admission adds tolerations and volumes to pods, in one version more than in another."""
    lost = frozenset() if written else {("spec", "a")}
    assert not_written({"spec": {"a": [1, 2]}}, {"spec": {"a": returned}}) == lost
    # The same list of two items, such as containers, has one path.
    spec = {"spec": [{"a": [1, 2]}, {"a": [1, 2]}]}
    assert not_written(spec, {"spec": [{"a": returned}, {"a": [1, 2, 3]}]}) == lost
