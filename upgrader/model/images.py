"""The container images in a manifest, and how they differ from those of another manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from upgrader.model.manifest import Manifest, objects_in
from upgrader.model.version import KubernetesVersion

__all__ = ["ImageChange", "change_minor", "image_changes", "images_in", "images_of", "other_versions", "pod_spec_of"]


_COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")


@dataclass(frozen=True)
class ImageChange:
    """One container whose image changes; None if there is no such container before or after."""

    object: str
    """`Deployment kube-system/kube-apiserver`"""
    container: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        """`registry.k8s.io/pause: 3.9 → 3.10`, without the common part."""
        if self.before is None or self.after is None:
            return f"{self.after} (new)" if self.after is not None else f"{self.before} (no longer)"
        (name, tag), (old_name, old_tag) = _parts(self.after), _parts(self.before)
        same = name == old_name and tag and old_tag
        return f"{name}: {old_tag} → {tag}" if same else f"{self.before} → {self.after}"


def image_changes(before: str, after: str) -> tuple[ImageChange, ...]:
    """The images that differ between two manifests, in the order of the new one; those of removed containers last."""
    old, new = images_in(before), images_in(after)
    keys = (*new, *(key for key in old if key not in new))
    return tuple(ImageChange(*key, old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key))


def other_versions(changes: Iterable[ImageChange], than: KubernetesVersion) -> tuple[str, ...]:
    """The components of Kubernetes that have another version than kube-apiserver's, as `kube-proxy v1.36.3`."""
    before = (_component(change.before) for change in changes)
    return tuple(dict.fromkeys(f"{name} {version}" for name, version in filter(None, before) if version != than))


def change_minor(changes: Iterable[ImageChange]) -> bool:
    """Whether a component of Kubernetes gets another minor."""
    pairs = ((_component(change.before), _component(change.after)) for change in changes)
    return any(old and new and new[1].minors_after(old[1]) != 0 for old, new in pairs)


def images_in(manifest: str) -> dict[tuple[str, str], str]:
    """The image of each container, by its object (`Deployment kube-system/web`) and its name."""
    images = {}
    for key, item in objects_in(manifest).items():
        images.update({(key, name): image for name, image in images_of(pod_spec_of(item)).items()})
    return images


def images_of(pod: Mapping[str, Any]) -> dict[str, str]:
    """The image of each container of a pod's spec, by its name."""
    containers = (*(pod.get("initContainers") or ()), *(pod.get("containers") or ()))
    return {str(container.get("name")): str(container.get("image") or "") for container in containers}


def pod_spec_of(item: Manifest) -> Mapping[str, Any]:
    """The spec of the pods that an object starts, or of the object if it is a pod; empty if it starts none."""
    spec = item.get("spec") or {}
    if item.get("kind") == "Pod":
        return spec
    if item.get("kind") == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    return (spec.get("template") or {}).get("spec") or {}


def _component(image: str | None) -> tuple[str, KubernetesVersion] | None:
    """The component and the version that an image's name and tag say; None for anything else."""
    name, tag = _parts(image or "")
    component, version = name.rpartition("/")[2], KubernetesVersion.known(tag)
    return (component, version) if component in _COMPONENTS and version is not None else None


def _parts(image: str) -> tuple[str, str]:
    """Its name, and its tag or digest; a port isn't a tag."""
    name, _, tag = image.rpartition("@" if "@" in image else ":")
    return (name, tag) if name and "/" not in tag else (image, "")
