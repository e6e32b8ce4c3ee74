"""The certificates that `kubeadm certs renew` renews on a controller."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from upgrader.model.cluster import Host
from upgrader.model.json_values import from_json

__all__ = ["ControllerCertificates", "RenewableCertificate"]


@dataclass(frozen=True)
class _Listed:
    """One entry of `kubeadm certs check-expiration -o json`."""

    name: str
    expirationDate: str | None = None  # noqa: N815 - kubeadm's own names
    caName: str = ""  # noqa: N815
    externallyManaged: bool = False  # noqa: N815
    missing: bool = False


@dataclass(frozen=True)
class _Printed:
    certificates: tuple[_Listed, ...]


@dataclass(frozen=True)
class RenewableCertificate:
    """The certificate with this kubeadm name."""

    name: str
    not_after: datetime
    authority: str
    """kubeadm's name of the CA that issued it: ca, etcd-ca, front-proxy-ca."""
    external: bool
    """Whether that CA's key isn't on the controller, so that kubeadm can't renew the certificate."""


@dataclass(frozen=True)
class ControllerCertificates:
    """The certificates of one controller, by kubeadm's names."""

    host: Host
    certificates: tuple[RenewableCertificate, ...]

    @classmethod
    def parse(cls, host: Host, printed: str) -> ControllerCertificates:
        """From kubeadm's output; certificates that the controller doesn't have are left out. Raises ValueError."""
        listed = from_json(_Printed, json.loads(printed), "kubeadm").certificates
        return cls(host, tuple(_parsed(item) for item in listed if not item.missing))

    def ending(self, now: datetime, within: timedelta | None) -> Sequence[RenewableCertificate]:
        """Those that expire within this time, or have expired; None: all."""
        return [item for item in self.certificates if within is None or item.not_after <= now + within]


def _parsed(item: _Listed) -> RenewableCertificate:
    ends = datetime.fromisoformat((item.expirationDate or "").replace("Z", "+00:00"))
    if ends.tzinfo is None:
        raise ValueError(f"{item.name}: the expiration date {item.expirationDate!r} has no time zone")
    return RenewableCertificate(item.name, ends, item.caName, item.externallyManaged)
