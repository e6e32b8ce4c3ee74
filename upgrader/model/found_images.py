"""The digests of the images on the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from upgrader.model.first_few import first_few
from upgrader.model.image_name import digest_in, full_name, repository

__all__ = ["FoundImages", "listed_images"]


@dataclass
class FoundImages:
    """The digests of each image on each node, as far as the container runtimes report them.

    A runtime reports a digest of the registry, or the image's own ID. Both may differ between architectures: some
    report their architecture's manifest instead of the index. A digest of another repository has the same content: the
    image was imported (`import-2026-11-23@sha256:…`), or pulled through a mirror.
    """

    digests: dict[tuple[str, str, bool], dict[str, frozenset[str]]] = field(default_factory=dict)
    """(Image, architecture, whether the digests are the registry's) → node → digests."""

    def add(self, image: str, node: Mapping[str, Any], names: Iterable[str]) -> None:
        """What a node reports for an image's name: names with digests, or an ID."""
        for name in names:
            digest = digest_in(name)
            if repository(name) != repository(image) if digest else not name.startswith("sha256:"):
                continue
            nodes = self.digests.setdefault((image, _architecture(node), bool(digest)), {})
            known = nodes.get(node["metadata"]["name"], frozenset())
            nodes[node["metadata"]["name"]] = known | {digest or name}

    def differing(self) -> Iterator[str]:
        """A line for each image that has different content on two nodes."""
        for (image, _, _), nodes in sorted(self.digests.items()):
            groups: list[tuple[frozenset[str], list[str]]] = []
            for node, digests in sorted(nodes.items()):
                # A node with the digests of two groups shows that these are one group.
                same = [group for group in groups if group[0] & digests]
                names = [name for _, known in same for name in known]
                groups = [group for group in groups if group not in same]
                groups.append((digests.union(*(known for known, _ in same)), [*names, node]))
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


def listed_images(node: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """Each name of an image on the node → all names of that image in the same repository."""
    listed: dict[str, tuple[str, ...]] = {}
    for item in (node.get("status") or {}).get("images") or ():
        names = tuple(str(name) for name in item.get("names") or ())
        for name in names:
            listed[full_name(name)] = names
    return listed


def _architecture(node: Mapping[str, Any]) -> str:
    info = (node.get("status") or {}).get("nodeInfo") or {}
    return str(info.get("architecture") or "unknown")


def _nodes(count: int) -> str:
    return f"{count} node{'s' * (count != 1)}"
