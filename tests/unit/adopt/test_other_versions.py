"""What adoption says where a component isn't at kube-apiserver's version."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.adopt.kubeadm_cluster import FLAGS, facts, static_pod
from upgrader.adopt.other_versions import about_other_versions
from upgrader.model.version import KubernetesVersion

VERSION = KubernetesVersion.parse("v1.36.3")


def test_a_component_that_is_behind_is_named() -> None:
    """One release has one version for all of them; nobody is surprised by a scheduler that moves, or by kube-proxy."""
    pods = {name: static_pod(name) for name in FLAGS}
    pods["kube-scheduler"] = static_pod("kube-scheduler", image="registry.k8s.io/kube-scheduler:v1.36.1")
    proxy = {"spec": {"template": {"spec": {"containers": [{"image": "registry.k8s.io/kube-proxy:v1.35.9"}]}}}}
    assert list(about_other_versions(replace(facts(pods), proxy_daemonset=proxy), VERSION)) == [
        "kube-scheduler runs v1.36.1 now, and will get kube-apiserver's version, v1.36.3.",
        "kube-proxy runs v1.35.9 now, and will get kube-apiserver's version, v1.36.3.",
    ]


@pytest.mark.parametrize("tag", ["v1.36.3", "v1.36.1-vendor.2", "v1.36.1@sha256:00", "stable"])
def test_what_stays_is_not_mentioned(tag: str) -> None:
    """The same version, and tags and digests that the values keep."""
    pods = {name: static_pod(name) for name in FLAGS}
    pods["kube-scheduler"] = static_pod("kube-scheduler", image=f"registry.k8s.io/kube-scheduler:{tag}")
    assert list(about_other_versions(facts(pods), VERSION)) == []
