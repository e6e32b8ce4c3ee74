"""How an object in the cluster tells people what it is for."""

from __future__ import annotations

__all__ = ["DESCRIPTION"]

DESCRIPTION = "kubernetes.io/description"
"""Kubernetes' own annotation for this."""
