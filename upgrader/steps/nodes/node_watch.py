"""What the step asks about a node, besides its mark; the gates' own readings answer it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from upgrader.model.version import KubernetesVersion

__all__ = ["NodeWatch"]


class NodeWatch(Protocol):
    """Readings of nodes. Every one raises ApiError."""

    def problem(self, name: str) -> str:
        """What a node's conditions say against it; "" when nothing does."""
        ...

    def back(self, name: str, *versions: KubernetesVersion, with_pods: bool = True) -> Callable[[], str]:
        """Asks what is missing until a node is back with a just started kubelet of one of these versions; "": nothing.

        Only heartbeats that come after this call count; without `with_pods`, its critical pods don't.
        """
        ...

    def all_back(
        self, versions: Mapping[str, Collection[KubernetesVersion]], *, with_pods: bool = True
    ) -> Callable[[Collection[str]], Mapping[str, str]]:
        """The same of several nodes, each with its versions. Asked for those that are still waited for."""
        ...
