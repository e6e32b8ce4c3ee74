"""Components that run another version than kube-apiserver: adoption has one for all of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.adopt.facts import COMPONENTS, KubeadmFacts, at_version
from upgrader.adopt.values import container_image, image_values
from upgrader.model.version import KubernetesVersion

__all__ = ["about_other_versions"]


def about_other_versions(facts: KubeadmFacts, version: KubernetesVersion) -> Iterator[str]:
    """A sentence for each of them; an image whose tag or digest the values keep stays as it is."""
    for component, image in _images(facts):
        kept = image_values(image, str(version)).keys() & {"tag", "digest"}
        if not kept and at_version(image, version) != image:
            now = image.rpartition(":")[2]
            yield f"{component} runs {now} now, and will get kube-apiserver's version, {version}."


def _images(facts: KubeadmFacts) -> Iterator[tuple[str, str]]:
    for component in COMPONENTS:
        if pod := facts.running(component):
            yield component, pod.image
    if facts.proxy_daemonset is not None:
        yield "kube-proxy", container_image(facts.proxy_daemonset)
