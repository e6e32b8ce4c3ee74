"""The names of Kubernetes' own components."""

from __future__ import annotations

__all__ = ["COMPONENTS"]

COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""The components of a control plane, by the names of their containers."""
