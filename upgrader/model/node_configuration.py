"""What nodes are configured with beside their programs, and by which name a node is known to have got it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CONFIGURED", "NO_CONFIGURATION", "NodeConfiguration", "configured_with"]

CONFIGURED = "upgrader.io/node-configuration"
"""The annotation of a Node that names what it was last configured with, written when its upgrade is over."""

_DIGITS = 16


@dataclass(frozen=True)
class NodeConfiguration:
    """The sections of `nodes` that configure nodes; without any, nodes are told by their versions alone."""

    kubelet: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the KubeletConfiguration, merged into each node's own."""

    @property
    def fingerprint(self) -> str:
        """Names all of it; "" where there is nothing. Whoever reads it could try guesses, so no secret may be in it."""
        if not self.kubelet:
            return ""
        text = json.dumps({"kubelet": self.kubelet}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]

    @property
    def variables(self) -> Mapping[str, Any]:
        """As the playbooks take it."""
        return {"node_kubelet_configuration": self.kubelet} if self.kubelet else {}

    def __str__(self) -> str:
        return "; ".join(self._parts())

    def _parts(self) -> Iterator[str]:
        if self.kubelet:
            yield f"kubelet: {', '.join(self.kubelet)}"


NO_CONFIGURATION = NodeConfiguration()
"""Nodes are upgraded, and keep what they are configured with."""


def configured_with(node: Mapping[str, Any]) -> str:
    """The fingerprint that a node's annotation has; "" without one: nobody knows what it is configured with."""
    return str((node["metadata"].get("annotations") or {}).get(CONFIGURED) or "")
