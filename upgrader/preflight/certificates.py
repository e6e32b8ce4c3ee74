"""The controllers' certificates outlast the run. Read over SSH, as an API with an expired one doesn't answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from cryptography import x509

from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.preflight.context import PreflightContext

__all__ = ["WARNING", "check_certificates"]

WARNING = timedelta(days=30)

_REMEDY = (
    "`kubeadm certs renew all` on that controller, then restart what uses them (`kubeadm certs check-expiration`)."
)

# Certificates only: kubelet-client-current.pem and kubeconfigs contain keys too, which never leave the host.
_SCRIPT = """
cd /etc/kubernetes 2>/dev/null || exit 0
for file in pki/*.crt pki/etcd/*.crt /var/lib/kubelet/pki/kubelet-client-current.pem; do
  [ -r "$file" ] || continue
  echo "file $file"
  sed -n '/BEGIN CERTIFICATE/,/END CERTIFICATE/p' "$file"
done
for file in *.conf; do
  [ -r "$file" ] && grep -q client-certificate-data: "$file" || continue
  echo "file $file"
  sed -n 's/.*client-certificate-data: *//p' "$file" | tr -d '"' | base64 -d
  echo
done
"""


def check_certificates(context: PreflightContext) -> Iterator[Finding]:
    """No certificate in a controller's /etc/kubernetes has expired, or expires soon."""
    now = context.clock.now()
    for host in context.cluster.controllers:
        yield from _host(host, context.hosts.run(host, ["sh", "-c", _SCRIPT]).stdout, now)


def _host(host: Host, output: str, now: datetime) -> Iterator[Finding]:
    ends: dict[str, datetime] = {}
    begins: dict[str, datetime] = {}
    for name, text in _files(output):
        try:
            # The first one is the file's own; its issuers follow in a bundle.
            certificate = x509.load_pem_x509_certificates(text.encode())[0]
            ends[name], begins[name] = certificate.not_valid_after_utc, certificate.not_valid_before_utc
        except ValueError as error:
            title = f"{host.name}: {name} contains no readable certificate"
            yield Finding("certificates.unknown", "unknown", title, str(error))
    expired = {name: end for name, end in ends.items() if end <= now}
    expiring = {name: end for name, end in ends.items() if now < end <= now + WARNING}
    early = {name: begin for name, begin in begins.items() if begin > now}
    if early:
        yield Finding(
            "certificates.not-yet-valid",
            "error",
            f"{host.name}: {'1 certificate is' if len(early) == 1 else f'{len(early)} certificates are'} not yet valid",
            _listed(early),
            f"They were issued by a machine whose clock was ahead, or this machine's clock is behind: compare `date` "
            f"here and on {host.name}.",
        )
    if expired:
        title = f"{host.name}: {_counted(expired)} expired"
        yield Finding("certificates.expired", "error", title, _listed(expired), _REMEDY)
    if expiring:
        title = f"{host.name}: {_counted(expiring)} less than {WARNING.days} days left"
        yield Finding("certificates.expiring", "warning", title, _listed(expiring), _REMEDY)


def _files(output: str) -> Iterator[tuple[str, str]]:
    for part in output.split("file ")[1:]:
        name, _, text = part.partition("\n")
        yield name if name.startswith("/") else f"/etc/kubernetes/{name}", text


def _counted(ends: Mapping[str, datetime]) -> str:
    return "1 certificate has" if len(ends) == 1 else f"{len(ends)} certificates have"


def _listed(ends: Mapping[str, datetime]) -> str:
    return "\n".join(
        f"{name}: {end:%Y-%m-%d %H:%M} UTC" for name, end in sorted(ends.items(), key=lambda item: item[1])
    )
