"""Labels and annotations of static pods become those of the chart's pods; what can't is refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from tests.unit.adopt.kubeadm_pods import FLAGS, kubeadm_facts, kubeadm_pod
from upgrader.adopt.facts import StaticPod
from upgrader.adopt.nothing_lost import check_metadata
from upgrader.adopt.pod_metadata import extra_metadata, metadata_of, rendered_metadata
from upgrader.adopt.same_everywhere import check_same_everywhere
from upgrader.adopt.static_pod_parts import check_static_pods
from upgrader.errors import Blocked

KUBEADMS = "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint"
CHART = {"labels": {"app.kubernetes.io/name": "kube-apiserver"}, "annotations": {"checksum/proxy": "ab"}}


def _pod(component: str = "kube-apiserver", **metadata: Any) -> StaticPod:
    """kubeadm's, with more in its `metadata`; labels and annotations are added to what is there."""
    static = kubeadm_pod(component)
    pod = static.pod
    for field, value in metadata.items():
        pod["metadata"][field] = {**pod["metadata"].get(field, {}), **value} if isinstance(value, dict) else value
    return replace(static, manifest=yaml.safe_dump(pod).encode())


def test_services_and_monitoring_find_the_charts_pods() -> None:
    """kubeadm's own two labels, by which monitoring selects, and the operator's, become values."""
    static = _pod(labels={"team": "platform"}, annotations={"prometheus.io/scrape": "true"})
    assert extra_metadata(metadata_of(static), CHART) == {
        "podLabels": {"component": "kube-apiserver", "tier": "control-plane", "team": "platform"},
        "podAnnotations": {"prometheus.io/scrape": "true"},
    }


def test_what_the_kubelet_writes_itself_is_no_annotation_of_the_charts() -> None:
    """A manifest that was copied from `kubectl get pod` has them: with the mirror pod's, the API refuses every pod of
    the Deployment, and with the others, a pod would look like a static one.
    """
    kubelets = {f"kubernetes.io/config.{name}": "x" for name in ("hash", "mirror", "seen", "source")}
    static = _pod(annotations={**kubelets, "kubernetes.io/other": "kept"})
    assert metadata_of(static)["annotations"] == {"kubernetes.io/other": "kept"}


def test_a_time_is_the_text_that_the_kubelet_reads() -> None:
    """Tools that restart a pod write it without quotes; a value of another form would be no value of the pod."""
    static = _pod(annotations={"restartedAt": "TIME"})
    written = static.manifest.replace(b"TIME", b"2026-01-01T10:00:00Z")
    assert metadata_of(replace(static, manifest=written))["annotations"]["restartedAt"] == "2026-01-01T10:00:00Z"


def test_what_yaml_has_as_another_type_is_the_text_that_the_kubelet_reads() -> None:
    """Nothing after the colon is an empty text, and a label's name may look like a switch."""
    static = _pod(annotations={"critical": None}, labels={"team": None, True: "hardened", 2: "x"})
    assert metadata_of(static)["annotations"] == {"critical": ""}
    labels = metadata_of(static)["labels"]
    assert labels.items() >= {"team": "", "true": "hardened", "2": "x"}.items()
    assert extra_metadata(metadata_of(static), CHART)["podLabels"] == labels


def test_a_closing_mark_is_no_second_pod() -> None:
    """The kubelet reads a file's first document."""
    static = _pod(labels={"team": "platform"})
    ended = replace(static, manifest=static.manifest + b"---\n")
    assert ended.pod == static.pod and ended.container == static.container


def test_kubeadm_does_not_take_the_charts_pod_for_its_own() -> None:
    """The annotation by which `kubeadm upgrade` would go on is each controller's own, and stays away."""
    static = _pod(annotations={KUBEADMS: "10.0.0.1:6443"})
    assert metadata_of(static)["annotations"] == {}


def test_what_the_chart_has_itself_is_no_value() -> None:
    """The same twice would be no YAML."""
    assert "app.kubernetes.io/name" not in str(extra_metadata(metadata_of(_pod(labels=CHART["labels"])), CHART))


def test_a_label_that_the_chart_needs_otherwise_is_refused() -> None:
    """It is part of the chart's selector: the pod's own value can't be kept."""
    static = _pod(labels={"app.kubernetes.io/name": "api"})
    extra = extra_metadata(metadata_of(static), CHART)
    after = {"labels": {**CHART["labels"], **extra["podLabels"]}, "annotations": CHART["annotations"]}
    words = "on controller-1 has the label app.kubernetes.io/name=api, but the chart's pod has kube-apiserver"
    with pytest.raises(Blocked, match=words):
        check_metadata(kubeadm_facts(static), "kube-apiserver", after, {})


def test_the_operators_own_values_win() -> None:
    """A label that the values set to something else is nothing lost."""
    after = {"labels": {"component": "kube-apiserver", "tier": "mine"}, "annotations": {}}
    check_metadata(kubeadm_facts(), "kube-apiserver", after, {"podLabels": {"tier": "mine"}})


def test_other_metadata_is_refused() -> None:
    """What a field of a pod's metadata may mean to somebody isn't known."""
    with pytest.raises(Blocked, match=r"has `metadata\.finalizers`, which would be lost"):
        check_static_pods(kubeadm_facts(_pod(finalizers=["example.org/x"])).controllers)


def test_controllers_that_differ_in_labels_are_refused() -> None:
    """One release serves all of them; each one's own address is no difference."""
    pods = {name: kubeadm_pod(name) for name in FLAGS}
    one, other = (
        kubeadm_facts(pods["kube-scheduler"], _pod(annotations={KUBEADMS: f"10.0.0.{number}:6443"}, labels=labels))
        for number, labels in ((1, {}), (2, {"zone": "b"}))
    )
    first, second = one.controllers[0], replace(other.controllers[0], host=replace(one.controllers[0].host, name="c-2"))
    check_same_everywhere(replace(one, controllers=(first, replace(second, active=first.active))))
    with pytest.raises(Blocked, match="kube-apiserver on c-2 differs from controller-1 in its labels"):
        check_same_everywhere(replace(one, controllers=(first, second)))


def test_metadata_of_a_rendered_chart() -> None:
    """That of the pods, not of the Deployment; none where the chart has no such Deployment."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {}}
    manifest = yaml.safe_dump({"kind": "Deployment", "metadata": {"name": "x"}, "spec": {"template": template}})
    assert rendered_metadata(manifest, "x") == {"labels": {"a": "b"}, "annotations": {}}
    assert rendered_metadata(manifest, "y") == {"labels": {}, "annotations": {}}
