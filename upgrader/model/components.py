"""The names of Kubernetes' own components."""

from __future__ import annotations

__all__ = ["COMPONENTS"]

COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""Those of a control plane, as their containers are named."""
