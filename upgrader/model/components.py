"""The names of Kubernetes' own components."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["API_SERVER_CPU", "COMPONENTS", "RELEASE_AND_SECTION"]

RELEASE_AND_SECTION: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "kube-apiserver": ("kube-apiserver", ()),
    "kube-controller-manager": ("kubernetes", ("controllerManager",)),
    "kube-scheduler": ("kubernetes", ("scheduler",)),
}
"""Component → the release that runs it, and the keys that lead to its section of the release's values."""
COMPONENTS = tuple(RELEASE_AND_SECTION)
"""The components of a control plane, by the names of their containers."""
API_SERVER_CPU = 0.1
"""What kube-apiserver needs at least, in CPUs. Its start takes more than two seconds of CPU. An idle one uses a
hundredth; a run's probe makes that a twentieth.
"""
