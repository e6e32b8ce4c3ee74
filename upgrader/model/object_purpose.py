"""How an object in the cluster says what it is for, to whoever finds it there."""

from __future__ import annotations

__all__ = ["DESCRIPTION"]

DESCRIPTION = "kubernetes.io/description"
"""Kubernetes' own annotation for that."""
