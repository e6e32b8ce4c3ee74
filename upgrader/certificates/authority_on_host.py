"""The CAs of each node, over SSH: which CAs are trusted, how a new one is created, and which servers accept its
clients.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from upgrader.errors import HostError
from upgrader.model.ca_trust import IssuedCertificate, NodeTrust, TrustFile
from upgrader.model.cluster import Host
from upgrader.onhost.certificates.bundles import fingerprint
from upgrader.onhost.certificates.issued import KUBELET, OF_THE_CA
from upgrader.onhost.sending.sent_program import SentProgram
from upgrader.ports import Hosts

__all__ = ["AuthorityOnHost", "NewAuthority"]

_LOOK_SECONDS, _CHANGE_SECONDS, _MAKE_SECONDS, _ASK_SECONDS = 60.0, 240.0, 300.0, 120.0
_SIGN_SECONDS = 900.0
"""Half a dozen certificates; each kubeadm has two minutes, as it may ask an API that doesn't answer."""
_REMEDY = "Check on the node: ls -l /etc/kubernetes /etc/kubernetes/pki; systemctl status kubelet"
_NODE = SentProgram("authority", "certificates", "its CAs", _REMEDY)


@dataclass(frozen=True)
class AuthorityOnHost:
    """`certificates` is kubeadm's folder of certificates. Every method raises HostUnreachable or HostError."""

    hosts: Hosts
    certificates: str = "/etc/kubernetes/pki"

    @property
    def authority(self) -> str:
        """The CA's own file."""
        return f"{self.certificates}/ca.crt"

    def look(self, host: Host) -> NodeTrust:
        """What a node trusts. Changes nothing."""
        return _NODE.read(self.hosts, host, partial(_trust, host), "look", self.certificates, seconds=_LOOK_SECONDS)

    def make(self, host: Host, settings: Mapping[str, Any]) -> str:
        """Create a new CA there, with its key; returns its certificate. An existing one is kept.

        `settings` are fields of a ClusterConfiguration.
        """
        return str(self._ask(host, _MAKE_SECONDS, "make", json.dumps(dict(settings)))["made"])

    def made(self, host: Host) -> str:
        """The certificate of the new CA that is kept there, as PEM."""
        found = str(self._ask(host, _LOOK_SECONDS, "look", self.certificates)["made"])
        if not found:
            raise HostError(
                f"{host.name}: the new CA no longer exists there", remedy="Run the command again: it creates a new one."
            )
        return found

    def forget(self, host: Host, *, signing: bool = False) -> None:
        """Remove the new CA, and (`signing`) the file of the CA that signs, which only a rotation needs."""
        self._ask(host, _CHANGE_SECONDS, "forget", *([self.certificates] if signing else []))

    def keep_signing(self, host: Host) -> None:
        """Write the certificate of the signing CA to a separate file, beside the others."""
        self._ask(host, _CHANGE_SECONDS, "signing", self.certificates)

    def trust(self, host: Host, old: str, pem: str) -> tuple[str, ...]:
        """Also trust this CA, wherever the old one is trusted; restarts the kubelet if necessary. Returns the changed
        paths.
        """
        return self._changed(host, "trust", self.certificates, old, pem)

    def distrust(self, host: Host, old: str, which: str) -> tuple[str, ...]:
        """Stop trusting the CA of this fingerprint, where the old one is trusted."""
        return self._changed(host, "distrust", self.certificates, old, which)

    def sign(self, host: Host, renewal: str, keeper: Host) -> tuple[str, ...]:
        """Let the new CA sign there, and reissue the old one's certificates; returns the changed paths. `renewal`
        identifies this for `KubeadmOnHost.put_back`.

        Its key comes from the keeper, over SSH and through this process's memory.
        """
        secrets: tuple[str, ...] = ()
        if host != keeper:
            found = _NODE.answer(self.hosts, keeper, "key", seconds=_LOOK_SECONDS, quiet=True)
            secrets = (str(found["pem"]), str(found["key"]))
        words = ("sign", self.certificates, renewal)
        return _changed(_NODE.answer(self.hosts, host, *words, seconds=_SIGN_SECONDS, secrets=secrets))

    def renew_kubelet(self, host: Host, renewal: str, keeper: Host, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Give the kubelet there a client certificate of the new CA, and restart it; returns the changed paths.
        `settings` as for `make`. `renewal` identifies this for `kubelet_back`.
        """
        words = ("issue", json.dumps(dict(settings)), host.name)
        found = _NODE.answer(self.hosts, keeper, *words, seconds=_MAKE_SECONDS, quiet=True)
        secrets = (str(found["certificate"]), str(found["key"]))
        words = ("kubelet", self.certificates, renewal)
        return _changed(_NODE.answer(self.hosts, host, *words, seconds=_CHANGE_SECONDS, secrets=secrets))

    def kubelet_back(self, host: Host, renewal: str) -> tuple[str, ...]:
        """Restore the kubelet's previous certificate; returns the changed paths."""
        return self._changed(host, "kubelet-back", renewal)

    def refused(self, keeper: Host, asked: Sequence[tuple[str, str, int]]) -> tuple[str, ...]:
        """Those of these servers (name, address, port) that don't accept a client of the new CA kept there; one line
        each.
        """
        words = [f"{who} {address} {port}" for who, address, port in asked]
        return tuple(map(str, self._ask(keeper, _ASK_SECONDS, "refused", *words)["lines"]))

    def accepting(self, keeper: Host, asked: Sequence[tuple[str, str, int]]) -> tuple[str, ...]:
        """Those of these servers (name, address, port) that don't refuse a client of the old CA kept there; one line
        each.
        """
        words = [f"{who} {address} {port}" for who, address, port in asked]
        return tuple(map(str, self._ask(keeper, _ASK_SECONDS, "accepting", *words)["lines"]))

    def _changed(self, host: Host, *words: str) -> tuple[str, ...]:
        return _changed(self._ask(host, _CHANGE_SECONDS, *words))

    def _ask(self, host: Host, seconds: float, *words: str) -> dict[str, Any]:
        return _NODE.answer(self.hosts, host, *words, seconds=seconds)


def _changed(answer: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(map(str, answer["changed"]))


def _trust(host: Host, answer: Mapping[str, Any]) -> NodeTrust:
    files = tuple(TrustFile(str(each["path"]), tuple(map(str, each["trusts"]))) for each in answer["files"])
    signs, made, kept = (fingerprint(str(answer[key])) if answer[key] else "" for key in ("signs", "made", "kept"))
    issued = tuple(_issued(each) for each in answer["issued"])
    return NodeTrust(host, files, signs, made, str(answer["late"]), kept, issued)


def _issued(listed: Mapping[str, Any]) -> IssuedCertificate:
    name = str(listed["name"])
    return IssuedCertificate(name, str(listed["path"]), str(listed["by"]), name in (KUBELET, *OF_THE_CA))


@dataclass(frozen=True)
class NewAuthority:
    """The new CA, which may not exist yet, and the controller that keeps it."""

    on_host: AuthorityOnHost
    keeper: Host

    @cached_property
    def pem(self) -> str:
        """Its certificate. Raises HostError."""
        return self.on_host.made(self.keeper)

    @property
    def fingerprint(self) -> str:
        """Raises HostError."""
        return fingerprint(self.pem)
