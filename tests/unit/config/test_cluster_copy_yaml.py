"""The file of a copy: read as it was written, and refused with the line where it is anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.model.cluster_copy.examples import copied
from upgrader.config.cluster_copy_yaml import copy_text, read_copy
from upgrader.errors import ConfigError

TEXT = copy_text(copied())


def test_a_copy_is_read_as_it_was_written(tmp_path: Path) -> None:
    """With every kind and field that a copy may have."""
    file = tmp_path / "copy.yaml"
    file.write_text(TEXT)
    assert read_copy(file) == copied()


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ("kind: ClusterCopy", "kind: List", "kind: this is no ClusterCopy"),
        ("upgrader.io/v1alpha1", "upgrader.io/v2", "apiVersion: this version of upgrader reads upgrader.io/v1alpha1"),
        ("kubernetes: v1.36.3", "kubernetes: v1.36.3+k3s1", "kubernetes: 'v1.36.3+k3s1' is not a plain release"),
        ("adopted: true", "adopted: maybe", "adopted: `adopted` is missing, or has another form"),
        ("nodes:\n", "nodes: 3\nmore:\n", "more: no copy has this key"),
        ("feature-gates: A=true", "oidc-issuer-url: x", "flags.kube-apiserver.oidc-issuer-url: no copy has this flag"),
        ("'800'", "800", "flags.kube-apiserver.max-requests-inflight: no copy has this flag, or with such a value"),
        ("kubelet: v1.36.3", "kubelet: new", "nodes[0].kubelet: this is no version of Kubernetes"),
        ("pool: blue", "pool: {blue: 1}", "nodes[1].labels.pool: no copy has this field, or one of this form"),
        ("pool: blue", "--kubeconfig: /root/x", "nodes[1].labels.--kubeconfig: no copy has this field"),
        ("v1\n  kind: PriorityClass", "v1\n  kind: Pod", "objects[1]: no copy has objects of this kind"),
        ("  value: 1000", "  value: 1000\n  description: x", "objects[1].description: no copy has this field"),
        ("replicas: 4", "replicas: '4'", "objects[4].spec.replicas: no copy has this field, or one of this form"),
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


def _line(text: str, part: str, error: str) -> int:
    """Of the part's last line, which is the one that is wrong, or of an object's first."""
    end = 0 if "of this kind" in error else len(part.rstrip())
    return text[: text.index(part) + end].count("\n") + 1
