"""The controllers' certificates outlast the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from upgrader.errors import HostError
from upgrader.model.certificate_file import CertificateFile, UnreadableCertificate
from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.preflight.certificate_files import read_certificates
from upgrader.preflight.context import PreflightContext

__all__ = ["WARNING", "check_certificates"]

WARNING = timedelta(days=30)

_REMEDY = (
    "Renew kubeadm's certificates with `upgrader certs renew`, while the API answers. `upgrader certs show` shows who "
    "renews each one."
)


def check_certificates(context: PreflightContext) -> Iterator[Finding]:
    """No certificate in a controller's /etc/kubernetes has expired, or expires soon."""
    now = context.clock.now()
    for host in context.cluster.controllers:
        try:
            found = read_certificates(context.hosts, host)
        except HostError as error:  # the others' certificates are checked all the same
            title = f"{host.name}: the expiry of its certificates is unknown"
            yield Finding("certificates.unknown", "unknown", title, error.message, error.remedy)
            continue
        yield from _host(host, found, now)


def _host(host: Host, found: Iterable[CertificateFile | UnreadableCertificate], now: datetime) -> Iterator[Finding]:
    files: list[CertificateFile] = []
    for item in found:
        if isinstance(item, UnreadableCertificate):
            title = f"{host.name}: {item.path} contains no readable certificate"
            yield Finding("certificates.unknown", "unknown", title, item.why)
        else:
            files.append(item)
    # By file: a kubeconfig with several users has several.
    last_first = sorted(files, key=lambda item: item.not_after, reverse=True)
    expired = {item.path: item.not_after for item in last_first if item.not_after <= now}
    expiring = {item.path: item.not_after for item in last_first if now < item.not_after <= now + WARNING}
    early = {item.path: item.not_before for item in files if item.not_before > now}
    if early:
        yield Finding(
            "certificates.not-yet-valid",
            "error",
            f"{host.name}: {'1 certificate is' if len(early) == 1 else f'{len(early)} certificates are'} not yet valid",
            _listed(early),
            "The clock of the machine that issued them was ahead, or this machine's clock is behind: compare `date` "
            f"here and on {host.name}.",
        )
    if expired:
        title = f"{host.name}: {_counted(expired)} expired"
        yield Finding("certificates.expired", "error", title, _listed(expired), _REMEDY)
    if expiring:
        title = f"{host.name}: {_counted(expiring)} less than {WARNING.days} days left"
        yield Finding("certificates.expiring", "warning", title, _listed(expiring), _REMEDY)


def _counted(ends: Mapping[str, datetime]) -> str:
    return "1 certificate has" if len(ends) == 1 else f"{len(ends)} certificates have"


def _listed(ends: Mapping[str, datetime]) -> str:
    return "\n".join(
        f"{name}: {end:%Y-%m-%d %H:%M} UTC" for name, end in sorted(ends.items(), key=lambda item: item[1])
    )
