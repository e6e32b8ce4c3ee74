"""The API resources that a node's upgrade reads and changes."""

from __future__ import annotations

from upgrader.ports import Kind

__all__ = ["BUDGETS", "NODES", "PODS"]

BUDGETS = Kind("policy/v1", "poddisruptionbudgets")
NODES = Kind("v1", "nodes", namespaced=False)
PODS = Kind("v1", "pods")
