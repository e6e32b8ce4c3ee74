"""A run doesn't succeed with old programs: each component's image is of the target."""

from __future__ import annotations

import pytest

from tests.unit.preflight.conftest import World, workload
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.planned_images import check_planned_images

DIGEST, OTHER = f"@sha256:{'a' * 64}", f"@sha256:{'b' * 64}"
SCHEDULER = "kube-scheduler"


def plan(world: World, image: str, before: str = "registry.k8s.io/kube-scheduler:v1.36.3") -> None:
    """Let the run change a component's image."""
    container = {"name": SCHEDULER, "command": [SCHEDULER]}
    world.manifests["kubernetes"] = workload({**container, "image": image})
    world.before["kubernetes"] = workload({**container, "image": before})


@pytest.mark.parametrize(
    ("image", "before"),
    [
        ("registry.k8s.io/kube-scheduler:v1.37.1", "registry.k8s.io/kube-scheduler:v1.36.3"),
        ("mirror.example:5000/kube-scheduler:v1.37.1-eks-1-37-2", "mirror.example:5000/kube-scheduler:v1.36.3-eks-1"),
        (f"registry.k8s.io/kube-scheduler{DIGEST}", f"registry.k8s.io/kube-scheduler{OTHER}"),
    ],
)
def test_image_that_follows_the_target(world: World, image: str, before: str) -> None:
    """By its tag, a vendor's too; or it is another digest than before."""
    plan(world, image, before)
    assert world.find(check_planned_images) == {}


@pytest.mark.parametrize(
    "image",
    [
        "registry.k8s.io/kube-scheduler:v1.36.3",
        "mirror.example:5000/kube-scheduler:v1.36.3-eks-1-36-5",
        "mirror.example/kube-scheduler:stable",
        f"registry.k8s.io/kube-scheduler{DIGEST}",
        f"registry.k8s.io/kube-scheduler:v1.37.1{DIGEST}",
    ],
)
def test_image_that_stays_blocks_the_run(world: World, image: str) -> None:
    """Only labels would change, and the run would say that the cluster has the new version."""
    plan(world, image, image)
    found = world.find(check_planned_images)["releases.image-pinned"]
    assert found.severity == "error" and f"kube-scheduler would stay at {image}" in found.title
    assert "release kubernetes" in found.diagnosis


def test_a_digest_stays_in_a_run_at_the_same_version(world: World) -> None:
    """Nothing is to be new then but what the values change."""
    plan(world, f"registry.k8s.io/kube-scheduler{DIGEST}", f"registry.k8s.io/kube-scheduler{DIGEST}")
    world.target = KubernetesVersion(1, 36, 3)
    assert world.find(check_planned_images) == {}
