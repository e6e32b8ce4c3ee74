"""The entries of a kubeconfig: a context, and the cluster and the user that it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upgrader.config.yaml_document import Document

__all__ = ["entry"]


def entry(document: Document, kind: str, name: object) -> Mapping[str, Any]:
    """The content of the first `context`, `cluster` or `user` with a name; as for kubectl, it may be empty.

    Raises ConfigError where there is none, or where it is not a mapping.
    """
    listed = document.data.get(f"{kind}s")
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, dict) and item.get("name") == name:
            found = item.get(kind)
            if found is None:
                return {}
            if not isinstance(found, dict):
                raise document.error((f"{kind}s",), f"the {kind} '{name}' is not a mapping")
            return found
    raise document.error((f"{kind}s",), f"there is no {kind} named '{name or ''}'")
