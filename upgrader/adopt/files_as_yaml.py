"""A controller's configuration files, as YAML. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.model.config_text import read_first

__all__ = ["mapping_in", "servers_in"]


def mapping_in(host: Host, path: str, content: bytes) -> Mapping[str, Any]:
    """What is in a file's first document; empty for an empty file. Raises Blocked where it can't be read."""
    if not content.strip():
        return {}
    try:
        return read_first(content.decode(errors="replace"))
    except ValueError as error:
        raise _unreadable(host, path, str(error)) from error


def servers_in(host: Host, path: str, content: bytes) -> Iterator[str]:
    """Where a kubeconfig leads, by each of its clusters; "" for one without a server. Raises Blocked."""
    try:
        for entry in mapping_in(host, path, content).get("clusters") or ():
            yield str((entry.get("cluster") or {}).get("server") or "")
    except (AttributeError, TypeError) as error:
        raise _unreadable(host, path, "`clusters` isn't a kubeconfig's") from error


def _unreadable(host: Host, path: str, why: str) -> Blocked:
    return Blocked(
        f"{host.name}: {path} can't be read: {why}; nothing was changed",
        remedy="Correct the file; or, if nothing uses it, move it to another folder.",
    )
