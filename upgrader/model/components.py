"""The names of Kubernetes' own components."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["COMPONENTS", "RELEASE_AND_SECTION"]

RELEASE_AND_SECTION: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "kube-apiserver": ("kube-apiserver", ()),
    "kube-controller-manager": ("kubernetes", ("controllerManager",)),
    "kube-scheduler": ("kubernetes", ("scheduler",)),
}
"""Component → the release that runs it, and the keys that lead to its section of the release's values."""
COMPONENTS = tuple(RELEASE_AND_SECTION)
"""The components of a control plane, by the names of their containers."""
