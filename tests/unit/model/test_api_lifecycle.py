"""The table of Kubernetes' APIs: how it is made, and what it says."""

from __future__ import annotations

import json

import pytest

from scripts.api_lifecycle import Declared, declared_in, registered_in, render, table
from upgrader.model.api_lifecycle import known_apis, replacement_at
from upgrader.model.version import KubernetesVersion

V = KubernetesVersion

GENERATED = """\
// APILifecycleIntroduced says when, which is not the function: APILifecycleRemoved() (major, minor int) {
func (in *Widget) APILifecycleIntroduced() (major, minor int) {
\treturn 1, 9
}

func (in *Widget) APILifecycleDeprecated() (major, minor int) {
\treturn 1, 19
}

func (in *Widget) APILifecycleReplacement() schema.GroupVersionKind {
\treturn schema.GroupVersionKind{Group: "example.k8s.io", Version: "v1", Kind: "WidgetList"}
}

func (in *Widget) APILifecycleRemoved() (major, minor int) {
\treturn 1, 22
}

func (in *WidgetList) APILifecycleRemoved() (major, minor int) {
\treturn 1, 22
}

func (in *Core) APILifecycleReplacement() schema.GroupVersionKind {
\treturn schema.GroupVersionKind{Group: "", Version: "v1", Kind: "Pod"}
}
"""


def test_generated_file_is_read() -> None:
    """Each kind with its minors and its replacement; lists are left out, also where one is named by mistake."""
    assert declared_in(GENERATED) == {
        "Widget": Declared("1.9", "1.19", "1.22", "example.k8s.io/v1 Widget"),
        "Core": Declared(replacement="v1 Pod"),
    }


def test_registered_kinds_are_read() -> None:
    """Kinds of packages without a generated file are known by their registration."""
    text = "scheme.AddKnownTypes(V,\n\t\t&Widget{},\n\t\t&WidgetList{},\n\t\t&metav1.ListOptions{},\n\t)"
    assert registered_in(text) == {"Widget"}


def test_newest_word_counts_and_what_is_gone_is_removed() -> None:
    """A changed plan replaces the older one; unstable kinds end with their types, stable ones never do."""
    moved, beta, alpha, stable = ("g/v1beta1", "A"), ("g/v1beta1", "B"), ("g/v1alpha1", "C"), ("v1", "D")
    early = {
        moved: Declared("1.18", "1.19", "1.22"),
        beta: Declared("1.18", "1.19", "1.20"),
        alpha: Declared("1.19", "1.22", "1.25"),
        stable: Declared("1.0"),
        ("g/v1alpha1", "E"): Declared(),
        ("g/v1alpha2", "F"): Declared(),
    }
    late = {moved: Declared("1.18", "1.19", "1.23"), ("g/v1alpha2", "F"): Declared()}
    assert table({20: early, 21: late}) == {
        moved: Declared("1.18", "1.19", "1.23"),
        beta: Declared("1.18", "1.19", "1.20"),
        alpha: Declared("1.19", "", "1.21"),
        stable: Declared("1.0"),
        ("g/v1alpha1", "E"): Declared(removed="1.21"),
    }


def test_table_is_sorted_json() -> None:
    """One kind in a line, so that a change of the table can be reviewed."""
    text = render({("b/v1", "B"): Declared("1.2"), ("a/v1", "A"): Declared(removed="1.3")}, ["module v0.3.0"])
    assert json.loads(text)["apis"] == [
        {"apiVersion": "a/v1", "kind": "A", "removed": "1.3"},
        {"apiVersion": "b/v1", "kind": "B", "introduced": "1.2"},
    ]
    assert len(text.splitlines()) == 7 and "module v0.3.0" in text.splitlines()[1]


@pytest.mark.parametrize(
    ("api_version", "kind", "removed"),
    [
        ("extensions/v1beta1", "Deployment", 16),
        ("settings.k8s.io/v1alpha1", "PodPreset", 20),
        ("networking.k8s.io/v1beta1", "Ingress", 22),
        ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition", 22),
        ("apiregistration.k8s.io/v1beta1", "APIService", 22),
        ("policy/v1beta1", "PodSecurityPolicy", 25),
        ("batch/v1beta1", "CronJob", 25),
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler", 26),
        ("storage.k8s.io/v1beta1", "CSIStorageCapacity", 27),
        ("flowcontrol.apiserver.k8s.io/v1beta2", "FlowSchema", 29),
        ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", 32),
    ],
)
def test_great_removals_are_known(api_version: str, kind: str, removed: int) -> None:
    """What Kubernetes' deprecation guide lists is in the table, also what newer sources have forgotten."""
    api = known_apis()[api_version, kind]
    assert api.removed == (1, removed)
    assert api.served_by(V(1, removed - 1, 9)) and not api.served_by(V(1, removed, 0))


@pytest.mark.parametrize(
    ("api_version", "kind", "minor", "replacement"),
    [
        ("flowcontrol.apiserver.k8s.io/v1beta2", "FlowSchema", 28, "flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema"),
        ("flowcontrol.apiserver.k8s.io/v1beta1", "FlowSchema", 37, "flowcontrol.apiserver.k8s.io/v1 FlowSchema"),
        ("extensions/v1beta1", "Deployment", 37, "apps/v1 Deployment"),
        ("node.k8s.io/v1beta1", "RuntimeClass", 37, "node.k8s.io/v1 RuntimeClass"),
        ("networking.k8s.io/v1beta1", "IngressClass", 37, "networking.k8s.io/v1 IngressClass"),
        ("policy/v1beta1", "PodSecurityPolicy", 37, "None"),
    ],
)
def test_replacement_is_served_by_the_target(api_version: str, kind: str, minor: int, replacement: str) -> None:
    """The best one at that version: a named one that is gone by then, or isn't there yet, helps nobody."""
    assert str(replacement_at(known_apis()[api_version, kind], V(1, minor, 0))) == replacement


def test_table_is_consistent() -> None:
    """Something is known of each kind, and none ends before it begins."""
    for api in known_apis().values():
        known = [minor for minor in (api.introduced, api.deprecated, api.removed) if minor]
        assert known and known == sorted(known), str(api)
