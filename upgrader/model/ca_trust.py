"""Which CAs each node trusts as the cluster's own, which CA signs, and which CA issued each certificate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from upgrader.model.cluster import Host

__all__ = ["CaTrust", "IssuedCertificate", "NodeTrust", "RotationStage", "TrustFile"]


class RotationStage(StrEnum):
    """The stage of a rotation."""

    NONE = "none"
    """There is one CA."""
    TRUSTING = "trusting"
    """Not every node trusts the new CA yet."""
    TRUSTED = "trusted"
    """Every node trusts the new CA; the old one signs."""
    SIGNING = "signing"
    """The new CA signs on some controller, or has issued some of its certificates."""
    SIGNED = "signed"
    """The new CA signs on all controllers, and has issued every certificate."""
    FINISHING = "finishing"
    """Something trusts only the new CA, or the only thing left is to remove the old one."""

    @property
    def command(self) -> str:
        """The action that leads to the next stage."""
        phase = {self.NONE: "trust", self.TRUSTING: "trust", self.TRUSTED: "sign", self.SIGNING: "sign"}
        return f"upgrader certs rotate-ca {phase.get(self, 'finish')}"


@dataclass(frozen=True)
class TrustFile:
    """The CAs in a PEM file, or of a cluster in a kubeconfig."""

    path: str
    trusts: tuple[str, ...]
    """Fingerprints: SHA-256 of the certificates, in hexadecimal."""


@dataclass(frozen=True)
class IssuedCertificate:
    """A certificate that a CA of the rotation may have issued."""

    name: str
    """kubeadm's name of it, "kubelet" for the kubelet's client certificate, "" for other files."""
    path: str
    by: str
    """The fingerprint of the CA; "" for a CA outside the rotation."""
    renewed: bool
    """Whether a rotation issues it again."""


@dataclass(frozen=True)
class NodeTrust:
    """One node. A CA is "" if the node has none."""

    host: Host
    files: tuple[TrustFile, ...]
    signs: str
    """The fingerprint of the CA whose key is on the node."""
    made: str
    """The fingerprint of the new CA that the node keeps."""
    late: str
    """Why its kubelet must be restarted; "" if it needn't be."""
    kept: str = ""
    """The fingerprint of the old CA that the node keeps since the new one signs."""
    issued: tuple[IssuedCertificate, ...] = ()

    def lacking(self, old: str, new: str) -> tuple[str, ...]:
        """The files that trust the old CA and not the new one."""
        return tuple(item.path for item in self.files if old in item.trusts and new not in item.trusts)

    def trusting(self, which: str) -> tuple[str, ...]:
        """The files that trust a CA."""
        return tuple(item.path for item in self.files if which in item.trusts)

    def issued_by(self, which: str, *, renewed: bool = True) -> tuple[str, ...]:
        """The files with certificates of a CA that a rotation issues again, or (not `renewed`) can't issue."""
        return tuple(item.path for item in self.issued if which and item.by == which and item.renewed is renewed)

    def unsigned(self, old: str, new: str) -> bool:
        """Whether, on a controller, the new CA doesn't sign yet, or hasn't issued all that the controller uses."""
        mine = (item.by for item in self.issued if item.renewed and item.name != "kubelet")
        return bool(self.signs) and (self.signs != new or old in mine)

    @property
    def kubelet_by(self) -> str | None:
        """The CA that issued the kubelet's certificate; None if its kubeconfig names no file with one."""
        return next((item.by for item in self.issued if item.name == "kubelet"), None)


@dataclass(frozen=True)
class CaTrust:
    """All nodes, controllers first."""

    nodes: tuple[NodeTrust, ...]
    old: str
    """The fingerprint of the CA to replace; before any rotation, of the only CA."""
    new: str
    """The fingerprint of the new CA; "" if no rotation was begun."""
    keeper: Host | None
    """The controller that has had the new CA's key since it was made; None if there is none."""

    @classmethod
    def of(cls, controllers: Sequence[NodeTrust], workers: Sequence[NodeTrust], authority: str) -> CaTrust:
        """From the nodes' answers; `authority` is the path of the CA's file. Raises ValueError, with the reason, for
        CAs that no rotation leaves like this.
        """
        for node in controllers:
            if not node.signs:
                raise ValueError(f"{node.host.name} doesn't have the key of {authority}: an external CA signs")
        signing = {node.signs for node in controllers}
        kept = {node.kept for node in controllers} - {""}
        if len(kept or signing) > 1:
            raise ValueError(f"the controllers have keys of different CAs: {_by(controllers)}")
        old = next(iter(kept or signing))
        nodes = (*controllers, *workers)
        made = [node for node in controllers if node.made]
        # Others beside it in the CA's own file: who adds them has to maintain them.
        beside = {each for node in nodes for item in node.files if item.path == authority for each in item.trusts}
        found = ({node.made for node in made} | beside | signing) - {old}
        if len(found) > 1:
            shown = ", ".join(sorted(each[:16] for each in found))
            raise ValueError(f"besides the signing CA, {old[:16]}, there are several others: {shown}")
        new = next(iter(found), "")
        known = {old, new} if kept else {old}
        for node in nodes:
            if not known & {each for item in node.files for each in item.trusts}:
                raise ValueError(f"{node.host.name} doesn't trust the signing CA, {old[:16]}")
        return cls(nodes, old, new, made[0].host if made else None)

    @property
    def signs(self) -> str:
        """The fingerprint of the CA that signs: the old one, until the new one signs on every controller."""
        signing = {node.signs for node in self.nodes if node.signs}
        return self.new if signing == {self.new} else self.old

    @property
    def trusted(self) -> bool:
        """Whether every node trusts the new CA and has loaded it."""
        return bool(self.new and self.keeper) and not any(
            node.late or node.lacking(self.old, self.new) for node in self.nodes
        )

    @property
    def stage(self) -> RotationStage:
        """The stage of the rotation, by the nodes' files."""
        if not self.new:
            return RotationStage.NONE
        if not any(node.signs == self.new or node.issued_by(self.new) for node in self.nodes):
            return RotationStage.TRUSTED if self.trusted else RotationStage.TRUSTING
        if self.signs == self.new:
            alone = (item for node in self.nodes for item in node.files if self.new in item.trusts)
            if any(self.old not in item.trusts for item in alone):
                return RotationStage.FINISHING
            if not any(node.issued_by(self.old) or node.late for node in self.nodes):
                return RotationStage.SIGNED
        return RotationStage.SIGNING

    def left(self) -> Iterator[str]:
        """The certificates of the old CA that a rotation can't issue again, one line each."""
        for node in self.nodes:
            for path in node.issued_by(self.old, renewed=False):
                yield f"{node.host.name}: {path}"


def _by(controllers: Sequence[NodeTrust]) -> str:
    return ", ".join(f"{node.host.name}: {node.signs[:16]}" for node in controllers)
