"""A run doesn't succeed with old programs: each component's image is of the target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.adopt.kubeadm_pods import FLAGS, kubeadm_facts, kubeadm_pod
from tests.unit.preflight.conftest import World, workload
from upgrader.adapters.helm import HelmAdapter
from upgrader.adopt.derive import derive_values
from upgrader.built_in_files import charts_folder
from upgrader.model.release import ReleaseSpec
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
        ("example.org/plugins/kube-scheduler:v0.37.2", "example.org/plugins/kube-scheduler:v0.36.5"),
    ],
)
def test_image_that_follows_the_target(world: World, image: str, before: str) -> None:
    """By its tag, a vendor's too; or it is another digest than before, or another one of a project with own numbers."""
    plan(world, image, before)
    assert world.find(check_planned_images) == {}


@pytest.mark.parametrize(
    "image",
    [
        "registry.k8s.io/kube-scheduler:v1.36.3",
        "mirror.example:5000/kube-scheduler:v1.36.3-eks-1-36-5",
        "mirror.example/kube-scheduler:stable",
        "example.org/plugins/kube-scheduler:v0.36.5",
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


@pytest.fixture
def helm(tmp_path: Path) -> Iterator[HelmAdapter]:
    """The real Helm, with no cluster: rendering needs none."""
    adapter = HelmAdapter(tmp_path / "kubeconfig")
    yield adapter
    adapter.close()


@pytest.mark.parametrize("tag", ["v1.36.3-eks-1-36-5", "v1.36.3_vmware.1"])
@pytest.mark.parametrize("named", [True, False], ids=["kubeadm-config has the vendor's version", "or upstream's"])
def test_a_vendors_tag_that_adoption_kept_blocks_the_next_run(
    helm: HelmAdapter, world: World, tag: str, named: bool
) -> None:
    """Adoption must keep it, as no other image is there; the next run, whose values still have it, is refused for each
    component, instead of succeeding with the old programs.
    """
    images = {name: f"public.example/eks-distro/{name}:{tag}" for name in FLAGS}
    known = kubeadm_facts(*(kubeadm_pod(name, container={"image": image}) for name, image in images.items()))
    version = tag.replace("_", "+") if named else "v1.36.3"
    known = replace(known, configuration={**known.configuration, "kubernetesVersion": version})
    derived = derive_values(known, ("10.0.0.1",), {}, helm, charts_folder()).values
    for release in ("kube-apiserver", "kubernetes"):
        for manifests, values in (
            (world.before, derived[release]),
            (world.manifests, {**derived[release], "kubernetesVersion": "v1.37.1"}),
        ):
            chart = charts_folder() / release
            manifests[release] = helm.render(ReleaseSpec(release, "kube-system", chart, values), offline=True)
    found = [finding.title for finding in check_planned_images(world.context())]
    assert found == [f"{name} would stay at {image} instead of v1.37.1" for name, image in images.items()]
