"""Which CAs each node of a cluster trusts as the cluster's own, and which one signs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from upgrader.model.cluster import Host

__all__ = ["CaTrust", "NodeTrust", "TrustFile"]


@dataclass(frozen=True)
class TrustFile:
    """A PEM file, or a cluster in a kubeconfig, and the CAs in it."""

    path: str
    trusts: tuple[str, ...]
    """Fingerprints: SHA-256 of the certificates, in hexadecimal."""


@dataclass(frozen=True)
class NodeTrust:
    """One node. A CA is "" where there is none there."""

    host: Host
    files: tuple[TrustFile, ...]
    signs: str
    """The fingerprint of the CA whose key is there."""
    made: str
    """That of the new one which is kept there."""
    late: str
    """Why its kubelet must be restarted; "": it needn't."""

    def lacking(self, old: str, new: str) -> tuple[str, ...]:
        """The files that trust the old one, and not the new one."""
        return tuple(item.path for item in self.files if old in item.trusts and new not in item.trusts)

    def trusting(self, which: str) -> tuple[str, ...]:
        """The files that trust a CA."""
        return tuple(item.path for item in self.files if which in item.trusts)


@dataclass(frozen=True)
class CaTrust:
    """All nodes, controllers first."""

    nodes: tuple[NodeTrust, ...]
    signs: str
    """The fingerprint of the CA that signs."""
    new: str
    """That of the one that is to follow it; "": none was begun."""
    keeper: Host | None
    """Who has the new one's key; None: nobody."""

    @classmethod
    def of(cls, controllers: Sequence[NodeTrust], workers: Sequence[NodeTrust], authority: str) -> CaTrust:
        """From what the nodes answered; `authority` is the path of the CA's file. Raises ValueError, with the reason,
        for CAs that no rotation leaves so.
        """
        for node in controllers:
            if not node.signs:
                raise ValueError(f"{node.host.name} doesn't have the key of {authority}: an external CA signs")
        if len({node.signs for node in controllers}) > 1:
            raise ValueError(f"the controllers have keys of different CAs: {_by(controllers)}")
        signs = controllers[0].signs
        nodes = (*controllers, *workers)
        for node in nodes:
            if signs not in {each for item in node.files for each in item.trusts}:
                raise ValueError(f"{node.host.name} doesn't trust the CA that signs, {signs[:16]}")
        kept = [node for node in controllers if node.made]
        # Those beside it in the CA's own file: whoever adds others there has to look after them.
        beside = {each for node in nodes for item in node.files if item.path == authority for each in item.trusts}
        found = {node.made for node in kept} | beside - {signs}
        if len(found) > 1:
            shown = ", ".join(sorted(each[:16] for each in found))
            raise ValueError(f"beside the CA that signs, {signs[:16]}, there are several others: {shown}")
        return cls(nodes, signs, next(iter(found), ""), kept[0].host if kept else None)

    @property
    def trusted(self) -> bool:
        """Whether every node trusts the new one, and has read so."""
        return bool(self.new and self.keeper) and not any(
            node.late or node.lacking(self.signs, self.new) for node in self.nodes
        )


def _by(controllers: Sequence[NodeTrust]) -> str:
    return ", ".join(f"{node.host.name}: {node.signs[:16]}" for node in controllers)
