"""What kubeadm believes of a cluster can be kept true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.preflight.conftest import World
from upgrader.model.kubeadm_config import KubeadmConfig
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.kubeadm_config import check_kubeadm_config


def ids(world: World, text: str | None, target: str = "v1.37.1") -> list[tuple[str, str]]:
    """The findings where kubeadm has kept this text; None: it didn't make the cluster."""
    world.observed = replace(world.observed, kubeadm=KubeadmConfig(text) if text is not None else None)
    world.target = KubernetesVersion.parse(target)
    return [(item.id, item.severity) for item in check_kubeadm_config(world.context())]


def test_text_that_can_not_be_changed_is_a_warning(world: World) -> None:
    """The run leaves it as it is; a cluster of somebody else's has none, and needs none."""
    assert ids(world, "kubernetesVersion: stable-1") == [("kubeadm-config.unreadable", "warning")]
    assert ids(world, "apiVersion: kubeadm.k8s.io/v1beta4\nkubernetesVersion: v1.36.3") == []
    assert ids(world, None) == []


def test_format_that_the_new_kubeadm_has_lost_is_a_warning(world: World) -> None:
    """kubeadm v1.37 doesn't read v1beta3 any more, and v1.36 still does."""
    text = "apiVersion: kubeadm.k8s.io/v1beta3\nkubernetesVersion: v1.35.4"
    assert ids(world, text) == [("kubeadm-config.format", "warning")]
    assert ids(world, text, "v1.36.3") == []


@pytest.mark.parametrize("form", ["v1beta1", "v1beta2"])
def test_format_of_an_old_kubeadm_is_a_warning_at_every_version(world: World, form: str) -> None:
    """The cluster was upgraded by something else than kubeadm for years."""
    text = f"apiVersion: kubeadm.k8s.io/{form}\nkubernetesVersion: v1.35.4"
    assert ids(world, text, "v1.36.3") == [("kubeadm-config.format", "warning")]
