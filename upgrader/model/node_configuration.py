"""The configuration of nodes apart from their programs, and the fingerprint that shows a node has it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

__all__ = ["CONFIGURED", "NO_CONFIGURATION", "ContainerRuntime", "NodeConfiguration", "configured_with"]

CONFIGURED = "upgrader.io/node-configuration"
"""The annotation of a Node with the fingerprint of its last configuration, written at the end of its upgrade."""

_DIGITS = 16


@dataclass(frozen=True)
class ContainerRuntime:
    """The containerd that nodes get, and its configuration."""

    version: str = ""
    """Without `v`; "": each node keeps its own."""
    kind: Literal["packages", "folder", "url", ""] = ""
    """Where the archive of that version is."""
    place: str = ""
    """The archive: an absolute path on this machine, or a URL."""
    sha256: str = ""
    """The archive's SHA-256."""
    architectures: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Architecture → the place ("": the same as for the others) and the SHA-256 of its own archive."""
    config: Path | None = None
    """The file that configures it, or its Jinja2 template; None: nodes keep theirs."""
    config_digest: str = ""

    @property
    def source(self) -> Mapping[str, Any]:
        """The variables of the playbooks."""
        if self.kind == "packages":
            return {"kind": self.kind}
        key = "path" if self.kind == "folder" else "url"
        made = {"kind": self.kind, key: self.place, "sha256": self.sha256}
        own = {
            name: {key: place or self.place, "sha256": sha256} for name, (place, sha256) in self.architectures.items()
        }
        return {**made, "architectures": own} if own else made

    @property
    def archives(self) -> tuple[str, ...]:
        """The places of all archives."""
        return (self.place, *(place for place, _ in self.architectures.values() if place))

    @property
    def variables(self) -> Mapping[str, Any]:
        """The variables of the playbooks."""
        given: dict[str, Any] = {"version": self.version, "source": dict(self.source)} if self.version else {}
        return {**given, "config": str(self.config)} if self.config else given

    def __str__(self) -> str:
        return " and ".join(filter(None, [self.version, "its configuration" if self.config else ""]))


@dataclass(frozen=True)
class NodeConfiguration:
    """The sections of `nodes` that configure nodes; without any, only the version tells whether a node is upgraded."""

    kubelet: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the KubeletConfiguration, merged into each node's own."""
    runtime: ContainerRuntime | None = None

    @property
    def fingerprint(self) -> str:
        """Identifies the whole configuration; "" if there is none. Anyone who reads it could test guesses, so no secret
        may be in it.
        """
        if not self.kubelet and self.runtime is None:
            return ""
        runtime = [self.runtime.version, self.runtime.config_digest] if self.runtime else None
        text = json.dumps({"kubelet": self.kubelet, "runtime": runtime}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]

    @property
    def variables(self) -> Mapping[str, Any]:
        """The variables of the playbooks."""
        kubelet = {"node_kubelet_configuration": self.kubelet} if self.kubelet else {}
        return {**kubelet, "node_container_runtime": self.runtime.variables} if self.runtime else kubelet

    def __str__(self) -> str:
        return "; ".join(self._parts())

    def _parts(self) -> Iterator[str]:
        if self.kubelet:
            yield f"kubelet: {', '.join(self.kubelet)}"
        if self.runtime:
            yield f"containerd: {self.runtime}"


NO_CONFIGURATION = NodeConfiguration()
"""Nodes are upgraded, and keep what they are configured with."""


def configured_with(node: Mapping[str, Any]) -> str:
    """The fingerprint in a node's annotation; "" without one: it is unknown what the node is configured with."""
    return str((node["metadata"].get("annotations") or {}).get(CONFIGURED) or "")
