"""Components that run another version than kube-apiserver: adoption has one for all of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.adopt.facts import COMPONENTS, KubeadmFacts
from upgrader.errors import UsageError
from upgrader.model.version import KubernetesVersion

__all__ = ["about_other_versions"]


def about_other_versions(facts: KubeadmFacts, version: KubernetesVersion) -> Iterator[str]:
    """A sentence for each of them; an image whose tag is no plain version, or that has a digest, stays as it is."""
    for component, image in _images(facts):
        tag = image.partition("@")[0].rpartition(":")[2]
        try:
            now = KubernetesVersion.parse(tag)
        except UsageError:
            continue
        if now != version and tag == str(now) and "@" not in image:
            yield f"{component} runs {now} now, and gets {version}, as kube-apiserver has it."


def _images(facts: KubeadmFacts) -> Iterator[tuple[str, str]]:
    for component in COMPONENTS:
        if pod := facts.running(component):
            yield component, pod.image
    if facts.proxy_daemonset is not None:
        container = facts.proxy_daemonset["spec"]["template"]["spec"]["containers"][0]
        yield "kube-proxy", str(container["image"])
