"""What of a server's words leaves the host: its reason, and no content of an object."""

from __future__ import annotations

from typing import Any

import pytest

from upgrader.onhost.rehearsal.objects import changed_fields, like, owner
from upgrader.onhost.rehearsal.words import reason, stripped

OBJECT = {
    "apiVersion": "example.com/v1",
    "kind": "Account",
    "metadata": {"name": "one", "namespace": "default", "annotations": {"tier-of-customer": "gold"}},
    "spec": {"password": "hunter2", "pin": 4711, "hosts": ["db.example.com"], "on": True},
    "data": {"key-of-user": "x"},
}


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ('Invalid value: "hunter2": must be longer', "Invalid value: …: must be longer"),
        ("Invalid value: 4711: must be positive", "Invalid value: …: must be positive"),
        ('Invalid value: {"password": "hunter2"}: no', "Invalid value: …"),
        ("the password hunter2 of db.example.com. It is weak", "the password … of …. It is weak"),
        ("the first half, hunte, is weak", "the first half, …, is weak"),
        ("HUNTER2, pin 4711, tier-of-customer gold, key-of-user", "…, pin …"),
        ("a\nb", "a b"),
        ("nothing of it", "nothing of it"),
    ],
)
def test_values_are_left_out(said: str, left: str) -> None:
    """Quoted or not, whole or a part, also where a rule of a custom resource puts them into its own message."""
    assert stripped(said, OBJECT) == left


def test_causes_of_an_invalid_object_are_named_by_field() -> None:
    """Keys that users choose are not shown, numbers in lists are."""
    causes = [
        {"field": "spec.hosts[0]", "message": 'Invalid value: "db.example.com": must be a path'},
        {"field": "data[key-of-user]", "message": "Required value"},
        {"message": "x"},
        {"field": "more", "message": "more"},
    ]
    said = reason({"reason": "Invalid", "message": "hunter2", "details": {"causes": causes}}, OBJECT)
    assert said == "spec.hosts[0]: Invalid value: …: must be a path; data[…]: Required value; : x"
    assert reason({"reason": "Forbidden"}, None) == "Forbidden"
    assert reason({}, None) == "no reason"
    assert len(reason({"message": "word " * 1000}, None)) <= 300


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


def test_a_controllers_objects_are_told_by_its_uid() -> None:
    """They are made from one template."""
    references = [{"uid": "a"}, {"uid": "b", "controller": True}]
    assert owner({"metadata": {"ownerReferences": references}}) == "b"
    assert owner({"metadata": {}}) == ""


def test_changed_fields_have_no_names_of_users() -> None:
    """A key of a ConfigMap or a label is the user's."""
    before = {"metadata": {"labels": {"a": "1"}, "managedFields": [1]}, "spec": {"x": {"y": 1}}, "data": {"k": "1"}}
    after = {"metadata": {"labels": {"a": "2"}}, "spec": {"x": {"y": 2}, "z": 1}, "data": {}}
    assert changed_fields(before, after) == {"metadata.labels", "spec.x.y", "spec.z", "data"}
    assert changed_fields(before, before) == set()
