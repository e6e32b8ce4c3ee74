"""The kubeadm of each controller, over SSH: which certificates it manages, their renewal, and its undo."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from upgrader.model.cluster import Host
from upgrader.model.renewable import ControllerCertificates
from upgrader.onhost.sending.sent_program import SentProgram
from upgrader.ports import Hosts

__all__ = ["KubeadmOnHost"]

_LOOK_SECONDS, _SERVED_SECONDS = 240.0, 60.0
_RENEW_SECONDS = 900.0
"""About a dozen certificates. Each kubeadm has two minutes: it may ask an API that doesn't answer."""
_REMEDY = "Check on the controller: kubeadm certs check-expiration"
_CONTROLLER = SentProgram("controller", "certificates", "its kubeadm", _REMEDY)


@dataclass(frozen=True)
class KubeadmOnHost:
    """`certificates` is kubeadm's folder of certificates. Every method raises HostUnreachable or HostError."""

    hosts: Hosts
    certificates: str = "/etc/kubernetes/pki"

    def look(self, host: Host) -> ControllerCertificates:
        """The certificates that kubeadm there manages. Read-only."""

        def decode(answer: dict[str, Any]) -> ControllerCertificates:
            return ControllerCertificates.parse(host, str(answer["kubeadm"]))

        return _CONTROLLER.read(self.hosts, host, decode, "look", self.certificates, seconds=_LOOK_SECONDS)

    def mend(self, host: Host) -> tuple[str, ...]:
        """Restore certificates that an interrupted renewal left unusable; returns kubeadm's names. Nothing else
        changes.
        """
        return self._changed(host, "mend")

    def renew(self, host: Host, renewal: str, names: tuple[str, ...]) -> tuple[str, ...]:
        """Renew these, all or none; returns the files that changed. `renewal` identifies it for `put_back`."""
        return self._changed(host, "renew", renewal, self.certificates, *names)

    def put_back(self, host: Host, renewal: str) -> tuple[str, ...]:
        """Restore what that renewal changed there; returns the files."""
        return self._changed(host, "put-back", renewal)

    def others(self, host: Host, address: str, port: int, certificate: str) -> tuple[str, ...]:
        """Servers whose certificate isn't the one in their file: kube-apiserver at this address, and etcd. One line
        each.
        """
        words = ("served", address, str(port), certificate)
        return _CONTROLLER.read(self.hosts, host, partial(_lines, "others"), *words, seconds=_SERVED_SECONDS)

    def _changed(self, host: Host, *arguments: str) -> tuple[str, ...]:
        return _CONTROLLER.read(self.hosts, host, partial(_lines, "changed"), *arguments, seconds=_RENEW_SECONDS)


def _lines(name: str, answer: dict[str, Any]) -> tuple[str, ...]:
    return tuple(map(str, answer[name]))
