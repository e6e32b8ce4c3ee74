"""What is kept of pods and nodes, of which there are thousands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["lean_items"]


def lean_items() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Makes each item of one answer smaller: a DaemonSet's pods differ in little but their names, and nodes have the
    same images.

    Without who wrote which field, which is half of a pod; and with one string where several items have the same.
    """
    known: dict[str, str] = {}
    images: dict[str, Any] = {}
    """An image's first name → how a node reported it last."""

    def shared(value: Any) -> Any:
        if isinstance(value, dict):
            return {known.setdefault(key, key): shared(each) for key, each in value.items()}
        if isinstance(value, list):
            return [shared(each) for each in value]
        return known.setdefault(value, value) if isinstance(value, str) else value

    def image(found: Any) -> Any:
        """One object for all nodes that report it alike. To compare it is quicker than to go through it, and a node's
        images are most of what is read of it.
        """
        names = found.get("names") if isinstance(found, dict) else None
        name = str(names[0]) if isinstance(names, list) and names else ""
        if name not in images or images[name] != found:
            images[name] = shared(found)
        return images[name]

    def lean(item: dict[str, Any]) -> dict[str, Any]:
        metadata, status = item.get("metadata"), item.get("status")
        if isinstance(metadata, dict):
            metadata.pop("managedFields", None)
        reported = status.pop("images", None) if isinstance(status, dict) else None
        found = {known.setdefault(key, key): shared(each) for key, each in item.items()}
        if reported is not None:
            found["status"]["images"] = [image(each) for each in reported] if isinstance(reported, list) else reported
        return found

    return lean
