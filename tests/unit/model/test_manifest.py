"""The objects of a rendered chart are found as Helm applies them."""

from __future__ import annotations

import yaml

from upgrader.model.manifest import objects_in
from upgrader.steps.release.plan import object_changes

SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"key": "aHVudGVyMjI="}}


def test_lists_are_unpacked() -> None:
    """Each object of a list is one of its own, in a list of lists and in a list of one kind too."""
    one = {"metadata": {"name": "a", "namespace": "ns"}}
    lists = [
        {"kind": "List", "apiVersion": "v1", "items": [SECRET, {"kind": "List", "items": [{"kind": "Pod", **one}]}]},
        {"kind": "ConfigMapList", "apiVersion": "v1", "items": [one]},
        {"kind": "List", "items": None},
    ]
    found = objects_in(yaml.safe_dump_all(lists))
    assert list(found) == ["Secret s", "Pod ns/a", "ConfigMap ns/a"]
    assert found["ConfigMap ns/a"]["apiVersion"] == "v1"


def test_secrets_in_a_list_are_not_shown() -> None:
    """What is shown of a change of a Secret is its key, wherever the Secret is."""
    (change,) = object_changes("", yaml.safe_dump({"kind": "List", "items": [SECRET]}))
    assert "key" in change.diff and "aHVudGVyMjI=" not in change.diff


def test_objects_without_a_name() -> None:
    """A hook's Job has only the beginning of one; what has none ends no plan with a traceback."""
    found = objects_in("kind: Job\nmetadata: {generateName: test-}\n---\nkind: Odd\n")
    assert list(found) == ["Job test-", "Odd "]


def test_values_are_read_as_helm_reads_them() -> None:
    """Definitions of the Prometheus Operator have `=` in an enum, which YAML 1.1 gives a type of its own."""
    (found,) = objects_in("kind: X\nspec: {enum: ['!=', =, =~], start: 1:30, day: 2026-01-02}\n").values()
    assert found["spec"] == {"enum": ["!=", "=", "=~"], "start": "1:30", "day": "2026-01-02"}
