"""The images of a manifest, and how two manifests' images differ."""

from __future__ import annotations

import pytest

from upgrader.model.images import ImageChange, image_changes, images_in


def workload(kind: str, spec: str) -> str:
    """A manifest of one object."""
    return f"kind: {kind}\nmetadata: {{name: x}}\nspec: {spec}\n---\n"


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Deployment", "{template: {spec: %s}}"),
        ("Pod", "%s"),
        ("CronJob", "{jobTemplate: {spec: {template: {spec: %s}}}}"),
    ],
)
def test_every_kind_of_workload_has_its_images(kind: str, spec: str) -> None:
    """Init containers too, by the object and the container; other objects have none."""
    pod = "{initContainers: [{name: i, image: 'init:1'}], containers: [{name: c, image: 'app:1'}]}"
    text = workload(kind, spec % pod) + workload("ConfigMap", "{}")
    assert images_in(text) == {(f"{kind} x", "i"): "init:1", (f"{kind} x", "c"): "app:1"}


def test_images_that_differ() -> None:
    """Changed, new and removed containers; those that stay are not named."""
    before, after = (
        workload("Pod", f"{{containers: [{text}]}}")
        for text in (
            "{name: same, image: 's:1'}, {name: moved, image: 'm:1'}, {name: gone, image: 'g:1'}",
            "{name: same, image: 's:1'}, {name: moved, image: 'm:2'}, {name: more, image: 'n:1'}",
        )
    )
    assert image_changes(before, after) == (
        ImageChange("Pod x", "moved", "m:1", "m:2"),
        ImageChange("Pod x", "more", None, "n:1"),
        ImageChange("Pod x", "gone", "g:1", None),
    )


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("registry.k8s.io/a:v1", "registry.k8s.io/a:v2", "registry.k8s.io/a: v1 → v2"),
        ("r:5000/a", "r:5000/a:v2", "r:5000/a → r:5000/a:v2"),
        ("a@sha256:1", "a@sha256:2", "a: sha256:1 → sha256:2"),
        ("docker.io/a:v1", "mirror/a:v1", "docker.io/a:v1 → mirror/a:v1"),
        (None, "a:v1", "a:v1 (new)"),
        ("a:v1", None, "a:v1 (no longer)"),
    ],
)
def test_change_in_a_line(before: str | None, after: str | None, shown: str) -> None:
    """What stays is written once; a registry that changes is seen."""
    assert str(ImageChange("Pod x", "c", before, after)) == shown
