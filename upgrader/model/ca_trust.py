"""Which CAs each node of a cluster trusts as the cluster's own, which one signs, and which one has issued what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from upgrader.model.cluster import Host

__all__ = ["CaTrust", "IssuedCertificate", "NodeTrust", "RotationStage", "TrustFile"]


class RotationStage(StrEnum):
    """How far a rotation is."""

    NONE = "none"
    """There is one CA."""
    TRUSTING = "trusting"
    """The new one is not trusted everywhere yet."""
    TRUSTED = "trusted"
    """It is; the old one signs."""
    SIGNING = "signing"
    """The new one signs on some controller, or has issued some of what it is to issue."""
    SIGNED = "signed"
    """It signs on all of them, and has issued everything."""
    FINISHING = "finishing"
    """Something trusts the new one alone; or nothing is left to do but to remove the old one."""

    @property
    def command(self) -> str:
        """What leads on."""
        phase = {self.NONE: "trust", self.TRUSTING: "trust", self.TRUSTED: "sign", self.SIGNING: "sign"}
        return f"upgrader certs rotate-ca {phase.get(self, 'finish')}"


@dataclass(frozen=True)
class TrustFile:
    """A PEM file, or a cluster in a kubeconfig, and the CAs in it."""

    path: str
    trusts: tuple[str, ...]
    """Fingerprints: SHA-256 of the certificates, in hexadecimal."""


@dataclass(frozen=True)
class IssuedCertificate:
    """A certificate that a CA of the rotation may have issued."""

    name: str
    """kubeadm's, "kubelet" for that with which the kubelet is a client, or "": neither knows it."""
    path: str
    by: str
    """The fingerprint of the CA; "" for another one."""
    renewed: bool
    """Whether a rotation issues it anew."""


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
    kept: str = ""
    """That of the old one which is kept there since the new one signs."""
    issued: tuple[IssuedCertificate, ...] = ()

    def lacking(self, old: str, new: str) -> tuple[str, ...]:
        """The files that trust the old one, and not the new one."""
        return tuple(item.path for item in self.files if old in item.trusts and new not in item.trusts)

    def trusting(self, which: str) -> tuple[str, ...]:
        """The files that trust a CA."""
        return tuple(item.path for item in self.files if which in item.trusts)

    def issued_by(self, which: str, *, renewed: bool = True) -> tuple[str, ...]:
        """The files with certificates of a CA which a rotation issues anew, or (not `renewed`) which it can't."""
        return tuple(item.path for item in self.issued if which and item.by == which and item.renewed is renewed)

    def unsigned(self, old: str, new: str) -> bool:
        """Whether, on a controller, the new CA doesn't sign yet, or hasn't issued all that the controller uses."""
        mine = (item.by for item in self.issued if item.renewed and item.name != "kubelet")
        return bool(self.signs) and (self.signs != new or old in mine)

    @property
    def kubelet_by(self) -> str | None:
        """Which CA has issued the certificate of the kubelet; None: its kubeconfig names no file with one."""
        return next((item.by for item in self.issued if item.name == "kubelet"), None)


@dataclass(frozen=True)
class CaTrust:
    """All nodes, controllers first."""

    nodes: tuple[NodeTrust, ...]
    old: str
    """The fingerprint of the CA that is replaced; before any rotation, of the only one."""
    new: str
    """That of the one that is to follow it; "": none was begun."""
    keeper: Host | None
    """Who has the new one's key since it was made; None: nobody."""

    @classmethod
    def of(cls, controllers: Sequence[NodeTrust], workers: Sequence[NodeTrust], authority: str) -> CaTrust:
        """From what the nodes answered; `authority` is the path of the CA's file. Raises ValueError, with the reason,
        for CAs that no rotation leaves so.
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
        # Those beside it in the CA's own file: whoever adds others there has to look after them.
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
        """The fingerprint of the CA that signs; the old one, until the new one does on every controller."""
        signing = {node.signs for node in self.nodes if node.signs}
        return self.new if signing == {self.new} else self.old

    @property
    def trusted(self) -> bool:
        """Whether every node trusts the new one, and has read so."""
        return bool(self.new and self.keeper) and not any(
            node.late or node.lacking(self.old, self.new) for node in self.nodes
        )

    @property
    def stage(self) -> RotationStage:
        """How far it is, by the nodes' files."""
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
        """What the old one has issued that a rotation can't issue anew, one line each."""
        for node in self.nodes:
            for path in node.issued_by(self.old, renewed=False):
                yield f"{node.host.name}: {path}"


def _by(controllers: Sequence[NodeTrust]) -> str:
    return ", ".join(f"{node.host.name}: {node.signs[:16]}" for node in controllers)
