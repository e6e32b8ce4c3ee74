"""Which images each node needs, which it has, and under which digests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from upgrader.model.first_few import first_few
from upgrader.model.image_name import digest_in, full_name, repository
from upgrader.model.pod_placement import may_run_on
from upgrader.ports import KubeObject
from upgrader.steps.images.planned_images import PlannedPods

__all__ = ["FoundImages", "NodeNeeds", "needs_of", "not_ready"]


@dataclass
class FoundImages:
    """Under which digests each image is on which nodes, as far as their container runtimes say.

    A runtime names a digest of the registry, or the image's own ID. Both may differ between architectures: some name
    the manifest of their own instead of the index's. A digest of another repository is another one with the same
    content: where the image was imported (`import-2026-11-23@sha256:…`), or pulled by way of a mirror.
    """

    digests: dict[tuple[str, str, bool], dict[str, frozenset[str]]] = field(default_factory=dict)
    """(Image, architecture, whether they are the registry's) → node → digests."""

    def add(self, image: str, node: KubeObject, names: Iterable[str]) -> None:
        """What a node has under an image's name: names with digests, or an ID."""
        for name in names:
            digest = digest_in(name)
            if repository(name) != repository(image) if digest else not name.startswith("sha256:"):
                continue
            nodes = self.digests.setdefault((image, _architecture(node), bool(digest)), {})
            known = nodes.get(node["metadata"]["name"], frozenset())
            nodes[node["metadata"]["name"]] = known | {digest or name}

    def differing(self) -> Iterator[str]:
        """A line for each image of which two nodes have different content."""
        for (image, _, _), nodes in sorted(self.digests.items()):
            groups: list[tuple[frozenset[str], list[str]]] = []
            for node, digests in sorted(nodes.items()):
                same = next((names for known, names in groups if known & digests), None)
                if same is None:
                    groups.append((digests, [node]))
                else:
                    same.append(node)
            if len(groups) > 1:
                kinds = "; ".join(f"{', '.join(sorted(known))} on {first_few(names)}" for known, names in groups)
                yield f"{image} is {kinds}"

    def known(self) -> Iterator[str]:
        """A line for each image whose digest in the registry is known."""
        known: dict[str, list[frozenset[str]]] = {}
        for (image, _, of_registry), nodes in sorted(self.digests.items()):
            if of_registry:
                known.setdefault(image, []).extend(nodes.values())
        for image, found in known.items():
            yield f"{image} is {', '.join(sorted(frozenset().union(*found)))} ({_nodes(len(found))})"


@dataclass(frozen=True)
class NodeNeeds:
    """What a node still needs: the workloads' pods, with the images that it doesn't list."""

    node: KubeObject
    pods: tuple[PlannedPods, ...]

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])


def needs_of(node: KubeObject, planned: Iterable[PlannedPods], found: FoundImages) -> NodeNeeds:
    """What a node that may run these pods doesn't list; what it lists is noted in `found`.

    A kubelet lists only 50 images, so that others may be there as well.
    """
    listed = _listed(node)
    pods = []
    for each in planned:
        if not may_run_on(each.spec, node):
            continue
        for image in each.images:
            if not _always(image):  # whatever it has of those, it will ask the registry for what the name is by then
                found.add(image.name, node, listed.get(full_name(image.name), ()))
        missing = tuple(image for image in each.images if _always(image) or full_name(image.name) not in listed)
        if missing:
            pods.append(replace(each, images=missing))
    return NodeNeeds(node, tuple(pods))


def not_ready(node: KubeObject) -> bool:
    """Whether no kubelet works there that could pull anything."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return not any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _always(image: Any) -> bool:
    """Whether the kubelet asks the registry whenever it starts such a container."""
    latest = full_name(image.name).endswith(":latest")
    return bool(image.policy == "Always" or (not image.policy and latest))


def _listed(node: KubeObject) -> Mapping[str, tuple[str, ...]]:
    """Each name of an image on the node → all names of that image in the same repository."""
    listed: dict[str, tuple[str, ...]] = {}
    for item in (node.get("status") or {}).get("images") or ():
        names = tuple(str(name) for name in item.get("names") or ())
        for name in names:
            listed[full_name(name)] = names
    return listed


def _architecture(node: KubeObject) -> str:
    info = (node.get("status") or {}).get("nodeInfo") or {}
    return str(info.get("architecture") or "unknown")


def _nodes(count: int) -> str:
    return f"{count} node{'s' * (count != 1)}"
