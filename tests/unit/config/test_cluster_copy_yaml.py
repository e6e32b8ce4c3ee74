"""The file of a copy: read as it was written, and refused with the line where it is anything else."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.model.cluster_copy.examples import OBJECTS, copied
from upgrader.config import cluster_copy_yaml
from upgrader.config.cluster_copy_yaml import copy_text, fitting, read_copy
from upgrader.errors import ConfigError
from upgrader.model import limited_yaml

TEXT = copy_text(copied())
HUGE = "0x" + "f" * 5000
"""A number that Python writes in no other form."""


def test_a_copy_is_read_as_it_was_written(tmp_path: Path) -> None:
    """With every kind and field that a copy may have."""
    file = tmp_path / "copy.yaml"
    file.write_text(TEXT)
    assert read_copy(file) == copied()


def definition(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A CustomResourceDefinition."""
    item = copy.deepcopy(next(each for each in OBJECTS if each["kind"] == "CustomResourceDefinition"))
    item["metadata"]["name"] = name
    item["spec"]["versions"][0] |= {
        "schema": {"openAPIV3Schema": schema},
        "selectableFields": [{"jsonPath": ".spec.a"}],
    }
    return item


def of_fields(number: int, **more: Any) -> dict[str, Any]:
    """A schema with so many fields."""
    return {"type": "object", "properties": {f"a{each}": {"type": "string", **more} for each in range(number)}}


def nested(levels: int) -> dict[str, Any]:
    """A schema that is nested so deeply."""
    return {"type": "object", "properties": {"a": nested(levels - 1)}} if levels else {"type": "object"}


@pytest.mark.parametrize(
    ("schemas", "named"),
    [
        ({"deep": nested(60), "flat": nested(3)}, {"deep": "nested too deeply"}),
        ({"a": of_fields(600), "b": of_fields(700), "c": of_fields(9)}, {"b": "too large"}),
        ({"a": of_fields(4, pattern="x" * 20_000), "b": of_fields(1)}, {"a": "too large"}),
    ],
    ids=["levels", "values", "bytes"],
)
def test_schemas_that_no_file_can_have_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schemas: dict[str, dict[str, Any]], named: dict[str, str]
) -> None:
    """The largest ones, or those that are too deep: their definitions are in the copy, which is read again."""
    monkeypatch.setattr(cluster_copy_yaml, "MOST_BYTES", 60_000)
    for module in (cluster_copy_yaml, limited_yaml):
        monkeypatch.setattr(module, "MOST_VALUES", 3000)
    found = fitting(copied(objects=[definition(name, schema) for name, schema in schemas.items()]))
    file = tmp_path / "copy.yaml"
    file.write_text(copy_text(found))
    again = read_copy(file)
    assert again.not_copied == tuple(
        f"CustomResourceDefinition {name}: its schemas are {why} for a file" for name, why in named.items()
    )
    versions = {item["metadata"]["name"]: item["spec"]["versions"][0] for item in again.objects}
    for name, schema in schemas.items():
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        assert versions[name]["schema"]["openAPIV3Schema"] == (anything if name in named else schema)
        assert ("selectableFields" in versions[name]) is (name not in named)


def test_a_copy_that_is_too_large_without_schemas_is_no_file() -> None:
    """By its bytes, too: it is said before it is written."""
    policy = copy.deepcopy(next(each for each in OBJECTS if each["kind"] == "ValidatingAdmissionPolicy"))
    policy["spec"]["validations"][0]["expression"] = "x" * 17_000_000
    with pytest.raises(yaml.YAMLError, match="bytes; at most 16,777,216 are accepted"):
        copy_text(fitting(copied(objects=(policy,))))


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ("kind: ClusterCopy", "kind: List", "kind: this is not a ClusterCopy"),
        ("upgrader.io/v1alpha1", "upgrader.io/v2", "apiVersion: this version of upgrader reads upgrader.io/v1alpha1"),
        ("kubernetes: v1.36.3", "kubernetes: v1.36.3+k3s1", "kubernetes: 'v1.36.3+k3s1' is not a plain release"),
        ("adopted: true", "adopted: maybe", "adopted: `adopted` is missing or malformed"),
        ("nodes:\n", "nodes: 3\nmore:\n", "more: a copy has no such key"),
        (
            "feature-gates: A=true",
            "oidc-issuer-url: x",
            "flags.kube-apiserver.oidc-issuer-url: a copy has no such flag",
        ),
        (
            "'800'",
            "800",
            "flags.kube-apiserver.max-requests-inflight: a copy has no such flag, or not this value of it",
        ),
        ("kubelet: v1.36.3", "kubelet: new", "nodes[0].kubelet: this is not a Kubernetes version"),
        ("pool: blue", "pool: {blue: 1}", "nodes[1].labels.pool: a copy has no such field, or not in this form"),
        ("pool: blue", "--kubeconfig: /root/x", "nodes[1].labels.--kubeconfig: a copy has no such field"),
        ("v1\n  kind: PriorityClass", "v1\n  kind: Pod", "objects[1]: a copy has no objects of this kind"),
        ("  value: 1000", "  value: 1000\n  description: x", "objects[1].description: a copy has no such field"),
        ("replicas: 4", "replicas: '4'", "objects[4].spec.replicas: a copy has no such field, or not in this form"),
        ("replicas: 4", "replicas: -4", "objects[4].spec.replicas: a copy has no such field, or not in this form"),
        ("replicas: 4", "replicas: 4.5", "objects[4].spec.replicas: a copy has no such field, or not in this form"),
        ("replicas: 4", "replicas: .inf", "objects[4].spec.replicas: this is not a finite number"),
        ("value: 1000", f"value: {HUGE}", "objects[1].value: this number has more than 64 bits"),
        ("kubelet: v1.36.3", f"kubelet: {HUGE}", "nodes[0].kubelet: this number has more than 64 bits"),
        (
            "v1\n  kind: PriorityClass",
            "v1\n  1: 1\n  kind: PriorityClass",
            "objects[1]: one of its keys is not a string",
        ),
        ("flags:\n", "flags:\n  kubelet: {}\n", "flags.kubelet: a copy has no flags of this component"),
        ("objects:", "objects: [", "is not valid YAML"),
    ],
)
def test_a_file_that_is_no_copy_is_refused(tmp_path: Path, before: str, after: str, error: str) -> None:
    """By others' hands or another version, with the line and the path of what is wrong: nothing but what a copy may
    have reaches a lab, whose nodes are root of this machine.
    """
    file = tmp_path / "copy.yaml"
    assert before in TEXT
    file.write_text(TEXT.replace(before, after, 1))
    with pytest.raises(ConfigError) as refused:
        read_copy(file)
    assert f"copy.yaml:{_line(file.read_text(), after, error)}: " in refused.value.message or "YAML" in error
    assert error in refused.value.message


@pytest.mark.parametrize(
    ("pattern", "after", "where"),
    [
        (r"(objects:\n(?:.*\n)*? +operator:) In", r"\1 Gt", "objects[3].spec.selector.matchExpressions"),
        (r"(objects:\n(?:.*\n)*?) +operator: In\n", r"\1", "objects[3].spec.selector.matchExpressions"),
        (r"(taints:\n(?:.*\n)*?) +effect: NoSchedule\n", r"\1", "nodes[1].taints"),
    ],
)
def test_an_entry_that_is_not_whole_is_refused(tmp_path: Path, pattern: str, after: str, where: str) -> None:
    """With the line of its list: of a selector, what it does is known, and a taint has its effect."""
    file = tmp_path / "copy.yaml"
    file.write_text(re.sub(pattern, after, TEXT, count=1))
    with pytest.raises(ConfigError, match=rf"copy.yaml:\d+: {re.escape(where)}: a copy has no such field"):
        read_copy(file)


@pytest.mark.parametrize("kind", [item["kind"] for item in OBJECTS])
def test_an_object_without_a_name_is_refused(tmp_path: Path, kind: str) -> None:
    """Whatever its kind: everything that is said of an object has its name."""
    for metadata in ("metadata: {}", ""):
        file = tmp_path / "copy.yaml"
        file.write_text(
            re.sub(rf"  kind: {kind}\n  metadata:\n(    .*\n)*", f"  kind: {kind}\n  {metadata}\n", TEXT, count=1)
        )
        with pytest.raises(ConfigError, match=r"objects\[\d+\]: a copy has no objects of this kind, or"):
            read_copy(file)


@pytest.mark.parametrize(
    ("kind", "namespace", "name"),
    [
        ("Deployment", "kube-system", "coredns"),
        ("DaemonSet", "kube-system", "kube-proxy"),
        ("DaemonSet", "kube-flannel", "kube-flannel-ds"),
        ("PriorityClass", "", "system-node-critical"),
        ("Namespace", "", "kube-flannel"),
    ],
)
def test_what_each_lab_has_is_not_replaced(tmp_path: Path, kind: str, namespace: str, name: str) -> None:
    """By a file's: the lab's own would run the pause image, or none."""
    plain = copied().plain()
    (item,) = (item for item in plain["objects"] if item["kind"] == kind)
    item["metadata"] = {"name": name, **({"namespace": namespace} if namespace else {})}
    file = tmp_path / "copy.yaml"
    file.write_text(yaml.safe_dump(plain, sort_keys=False))
    with pytest.raises(ConfigError, match=r"copy.yaml:\d+: objects\[\d+\]: a copy doesn't have this object"):
        read_copy(file)


def _line(text: str, part: str, error: str) -> int:
    """Of the part's last line, which is the one that is wrong, or of an object's first."""
    end = 0 if "objects[1]:" in error else len(part.rstrip())
    return text[: text.index(part) + end].count("\n") + 1
